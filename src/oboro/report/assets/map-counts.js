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
  // A level is dense where all its blocks fit into memory with ease: `values` has one number for each. A finer one is sparse:
  // `values` are those above 0, `starts` says where each row of blocks begins among them, `across` in which column each lies.
  const dense = (one) => one.rows * one.cols <= data.dense;
  const reader = (one) => {
    if (!one.starts) return (position) => one.values[position];
    return (position) => {
      const row = Math.floor(position / one.cols), col = position - row * one.cols;
      let low = one.starts[row], high = one.starts[row + 1];
      while (low < high) { const middle = (low + high) >> 1; if (one.across[middle] < col) low = middle + 1; else high = middle; }
      return low < one.starts[row + 1] && one.across[low] === col ? one.values[low] : 0;
    };
  };
  const sparse = (base, row, sums, of) => { // `of` gives the counts of one row of blocks, added up in `sums` and listed in `row`
    const starts = new Float64Array(base.rows + 1), across = [], values = [];
    for (let r = 0; r < base.rows; r++) {
      row.length = 0;
      of(r);
      row.sort((a, b) => a - b);
      for (const col of row) { across.push(col); values.push(sums[col]); sums[col] = 0; }
      starts[r + 1] = across.length;
    }
    return { ...base, starts, across: Int32Array.from(across), values: Float64Array.from(values) };
  };
  const ofSources = (base, source) => { // the finest blocks, where they are too many to be held one by one
    const layers = [...source.found].filter(([layer]) => source.summed || wanted(layer)).map(([, found]) => found);
    const at = layers.map(() => 0), row = [], sums = new Float64Array(base.cols);
    return sparse(base, row, sums, (r) => layers.forEach(({ positions, counts }, layer) => {
      const end = (r + 1) * base.cols;
      let i = at[layer];
      for (; i < positions.length && positions[i] < end; i++) {
        const col = positions[i] - r * base.cols;
        if (sums[col] === 0) row.push(col);
        sums[col] += counts[i];
      }
      at[layer] = i;
    }));
  };
  const coarser = (below, above) => {
    const times = above.side / below.side;
    if (!below.starts) {
      const values = new Float64Array(above.rows * above.cols);
      for (let r = 0, at = 0; r < below.rows; r++) {
        const line = (Math.floor((below.row + r) / times) - above.row) * above.cols - above.col;
        for (let c = 0; c < below.cols; c++, at++) values[line + Math.floor((below.col + c) / times)] += below.values[at];
      }
      return { ...above, values };
    }
    const rowsOf = (r) => [Math.max((above.row + r) * times - below.row, 0), Math.min((above.row + r + 1) * times - below.row, below.rows)];
    if (!dense(above)) {
      const row = [], sums = new Float64Array(above.cols);
      return sparse(above, row, sums, (r) => {
        const [first, last] = rowsOf(r);
        for (let i = below.starts[first]; i < below.starts[last]; i++) {
          const col = Math.floor((below.col + below.across[i]) / times) - above.col;
          if (sums[col] === 0) row.push(col);
          sums[col] += below.values[i];
        }
      });
    }
    const values = new Float64Array(above.rows * above.cols), filled = new Float32Array(values.length); // and how many blocks are above 0
    for (let r = 0; r < above.rows; r++) {
      const [first, last] = rowsOf(r);
      for (let i = below.starts[first]; i < below.starts[last]; i++) {
        const at = r * above.cols + Math.floor((below.col + below.across[i]) / times) - above.col;
        values[at] += below.values[i]; filled[at] += 1;
      }
    }
    return { ...above, values, filled, of: below.side };
  };
  const kept = new Map();
  const pyramid = (index) => {
    const key = index + ":" + state.chosen.join();
    if (kept.has(key)) return kept.get(key);
    const table = data.tables[index], source = sourceOf(table), base = part(source.side);
    let below;
    if (dense(base)) {
      below = { ...base, values: new Float64Array(base.rows * base.cols) };
      for (const [layer, { positions, counts }] of source.found)
        if (source.summed || wanted(layer)) for (let i = 0; i < positions.length; i++) below.values[positions[i]] += counts[i];
    } else below = ofSources(base, source);
    const total = below.values.reduce((sum, value) => sum + value, 0), levels = new Map();
    for (const side of data.sides) {
      if (side < source.side) continue;
      if (side > source.side) below = coarser(below, part(side));
      below.at = reader(below);
      levels.set(side, below);
    }
    const found = { levels, least: source.side, total };
    if (kept.size >= 6) kept.delete(kept.keys().next().value);
    kept.set(key, found);
    return found;
  };
  const level = (index, side = state.side) => pyramid(index).levels.get(side);
  return { load, sourceOf, wanted, pyramid, level, part };
};
