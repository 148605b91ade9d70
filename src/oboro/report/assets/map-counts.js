"use strict";
// Counts of the tables: packed sources, and a pyramid of sums over blocks for the categories that are chosen.
oboro.counts = (data, state) => {
  const [firstRow, firstCol, rows, cols] = data.window;

  const part = (side) => {
    const row = Math.floor(firstRow / side), col = Math.floor(firstCol / side);
    return { side, row, col, rows: Math.floor((firstRow + rows - 1) / side) - row + 1, cols: Math.floor((firstCol + cols - 1) / side) - col + 1 };
  };
  const load = async (source) => {
    const size = source.sizes.reduce((sum, each) => sum + each, 0);
    const numbers = await oboro.unpack(source.id, size * (source.intervals ? 4 : 2));
    const take = (stream, from, length) => numbers.subarray(stream * size + from, stream * size + from + length);
    source.found = new Map();
    let from = 0;
    source.layers.forEach((layer, index) => {
      const length = source.sizes[index], positions = take(0, from, length);
      for (let i = 0, position = -1; i < length; i++) positions[i] = position += positions[i];
      source.found.set(layer, { positions, counts: take(1, from, length),
        below: source.intervals ? take(2, from, length) : null, above: source.intervals ? take(3, from, length) : null });
      from += length;
    });
  };
  const sourceOf = (table) => table.sources[state.chosen.every((code) => code < 0) ? 0 : table.sources.length - 1];
  const wanted = (layer) => { // mixed radix, the last column lowest
    for (let i = data.columns.length - 1; i >= 0; i--) {
      const size = data.columns[i].values.length, code = layer % size;
      if (state.chosen[i] >= 0 && state.chosen[i] !== code) return false;
      layer = (layer - code) / size;
    }
    return true;
  };
  const kept = new Map();
  const pyramid = (index) => {
    const key = index + ":" + state.chosen.join();
    if (kept.has(key)) return kept.get(key);
    const table = data.tables[index], source = sourceOf(table), base = part(source.side);
    const values = new Float64Array(base.rows * base.cols);
    for (const [layer, { positions, counts }] of source.found)
      if (source.summed || wanted(layer)) for (let i = 0; i < positions.length; i++) values[positions[i]] += counts[i];
    const levels = new Map([[source.side, { ...base, values }]]);
    let below = levels.get(source.side);
    for (const side of data.sides) {
      if (side <= source.side) continue;
      const above = { ...part(side), values: null }, times = side / below.side;
      above.values = new Float64Array(above.rows * above.cols);
      for (let r = 0, at = 0; r < below.rows; r++) {
        const line = (Math.floor((below.row + r) / times) - above.row) * above.cols - above.col;
        for (let c = 0; c < below.cols; c++, at++) above.values[line + Math.floor((below.col + c) / times)] += below.values[at];
      }
      levels.set(side, above);
      below = above;
    }
    const found = { levels, least: source.side, total: values.reduce((sum, value) => sum + value, 0) };
    if (kept.size >= 6) kept.delete(kept.keys().next().value);
    kept.set(key, found);
    return found;
  };
  const level = (index, side = state.side) => pyramid(index).levels.get(side);
  return { load, sourceOf, wanted, pyramid, level };
};
