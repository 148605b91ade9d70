"use strict";
// Where the map lies on earth: the land beneath, coordinates, the scale bar; and areas: which cell lies where, and their borders.
oboro.earth = async (data) => {
  const { say, number } = oboro, earth = data.earth, [firstRow, firstCol, rows, cols] = data.window;
  const unfold = (value) => value % 2 ? -(value + 1) / 2 : value / 2;

  // ---- what lies beneath: paths in columns, as wide as they are drawn, and rows

  const land = { fill: new Path2D(), line: new Path2D() };
  if (data.beneath) {
    const { rings, lines, points, fine } = data.beneath, shapes = rings + lines;
    const numbers = await oboro.unpack("oboro-beneath", shapes + 2 * points);
    let x = 0, y = 0, at = 0;
    for (let shape = 0; shape < shapes; shape++) {
      const path = shape < rings ? land.fill : land.line;
      for (let i = 0; i < numbers[shape]; i++, at++) {
        x += unfold(numbers[shapes + at]); y += unfold(numbers[shapes + points + at]);
        path[i ? "lineTo" : "moveTo"](x / fine * data.aspect, y / fine);
      }
      if (shape < rings) path.closePath();
    }
  }

  // ---- coordinates

  const lonLat = (row, col) => {
    if (!earth) return null;
    if (earth.degrees) return [earth.origin[0] + col * earth.steps[0], earth.origin[1] + row * earth.steps[1]];
    const size = earth.knots - 1, y = Math.min(Math.max((row - firstRow) / rows, 0), 1) * size, x = Math.min(Math.max((col - firstCol) / cols, 0), 1) * size;
    const r = Math.min(Math.floor(y), size - 1), c = Math.min(Math.floor(x), size - 1), v = y - r, u = x - c;
    const [lon, lat] = [earth.lon, earth.lat].map((of) => {
      const corner = (dr, dc) => of[(r + dr) * earth.knots + c + dc];
      const four = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)];
      return four.includes(null) ? null : (four[0] * (1 - u) + four[1] * u) * (1 - v) + (four[2] * (1 - u) + four[3] * u) * v;
    });
    return lon === null || lat === null ? null : [lon, lat];
  };
  const cellMetres = (row) => { // how wide a cell is there
    if (!earth) return null;
    const wide = Math.abs(earth.steps[0]) * earth.metres;
    return earth.degrees ? wide * Math.cos((earth.origin[1] + row * earth.steps[1]) * Math.PI / 180) : wide;
  };
  const where = (row, col) => {
    const found = lonLat(row, col);
    if (!found) return null;
    const metres = cellMetres(row), digits = metres < 200 ? 4 : metres < 2000 ? 3 : 2;
    const degrees = (value, plus, minus) => say(value < 0 ? minus : plus, { degrees: Math.abs(value).toFixed(digits) });
    return say("lat_lon", { lat: degrees(found[1], "north_of", "south_of"), lon: degrees(((found[0] + 540) % 360) - 180, "east_of", "west_of") });
  };
  const bar = (room, row, pixelsPerCell) => { // the longest round length that fits: [pixels, what it says]
    const metres = cellMetres(row), per = metres === null ? 1 / pixelsPerCell : metres / pixelsPerCell, most = room * per;
    if (metres === null && most < 1) return null;
    const power = 10 ** Math.floor(Math.log10(most)), length = [5, 2, 1].find((step) => step * power <= most) * power;
    const told = metres === null ? say("cells_long", { length: number(length) }) : length >= 1000 ? say("kilometres", { length: number(length / 1000) }) : say("metres", { length: number(length, 1) });
    return [length / per, told];
  };

  // ---- areas: runs of cells, row by row

  let areas = null;
  if (data.areas) {
    const { runs, levels, labels, above } = data.areas, numbers = await oboro.unpack(data.areas.id, 3 * runs);
    const first = new Float64Array(runs), last = new Float64Array(runs), id = new Int32Array(runs), starts = new Int32Array(rows + 1).fill(runs);
    for (let i = 0, at = 0, own = 0, row = 0; i < runs; i++) {
      at += numbers[i]; first[i] = at; at += numbers[runs + i]; last[i] = at; id[i] = own += unfold(numbers[2 * runs + i]);
      while (row <= Math.floor(first[i] / cols)) starts[row++] = i;
    }
    const ups = (own) => { // its number on every level, the coarsest first
      const found = [own];
      for (let level = above.length - 1; level >= 0; level--) found.unshift(above[level][found[0]]);
      return found;
    };
    const at = (row, col) => { // the last area of a cell, -1 for none
      const r = row - firstRow, position = r * cols + col - firstCol;
      if (r < 0 || r >= rows || col < firstCol || col >= firstCol + cols) return -1;
      let low = starts[r], high = starts[r + 1];
      while (low < high) { const middle = (low + high) >> 1; if (last[middle] <= position) low = middle + 1; else high = middle; }
      return low < starts[r + 1] && first[low] <= position ? id[low] : -1;
    };
    const offsets = []; // where the totals of each level begin
    labels.reduce((sum, own) => { offsets.push(sum); return sum + own.length; }, 0);
    const totals = new Map(), size = labels.reduce((sum, own) => sum + own.length, 0);
    for (const [key, name] of Object.entries(data.areas.totals)) totals.set(key, await oboro.unpack(name, 3 * size));
    const borders = levels.map((_, level) => {
      const number = (i) => ups(id[i])[level], path = new Path2D(), x = (col) => (firstCol + col) * data.aspect;
      const open = new Map(); // lines from row to row that go on: column by the row where they began
      for (let r = 0; r <= rows; r++) {
        const now = new Set();
        for (let i = r < rows ? starts[r] : 0; r < rows && i < starts[r + 1]; i++) {
          const begin = first[i] - r * cols, end = last[i] - r * cols, next = i + 1 < starts[r + 1] && first[i + 1] === last[i] ? number(i + 1) : -1;
          const before = i > starts[r] && last[i - 1] === first[i] ? number(i - 1) : -1;
          if (before >= 0 && before !== number(i)) now.add(begin);
          if (next >= 0 && next !== number(i)) now.add(end);
        }
        for (const [col, from] of open) if (!now.has(col)) { path.moveTo(x(col), firstRow + from); path.lineTo(x(col), firstRow + r); open.delete(col); }
        for (const col of now) if (!open.has(col)) open.set(col, r);
        // lines between this row and the one before it, where areas differ
        const cuts = new Set(), list = (row) => { const found = []; if (row >= 0 && row < rows) for (let i = starts[row]; i < starts[row + 1]; i++) { found.push([first[i] - row * cols, last[i] - row * cols, number(i)]); cuts.add(first[i] - row * cols); cuts.add(last[i] - row * cols); } return found; };
        const over = list(r - 1), under = list(r), edges = [...cuts].sort((a, b) => a - b);
        let o = 0, u = 0, from = null;
        for (let k = 0; k + 1 < edges.length; k++) {
          const col = edges[k];
          while (o < over.length && over[o][1] <= col) o++;
          while (u < under.length && under[u][1] <= col) u++;
          const mine = o < over.length && over[o][0] <= col ? over[o][2] : -1, theirs = u < under.length && under[u][0] <= col ? under[u][2] : -1;
          if (mine >= 0 && theirs >= 0 && mine !== theirs) { if (from === null) from = col; }
          else if (from !== null) { path.moveTo(x(from), firstRow + r); path.lineTo(x(col), firstRow + r); from = null; }
        }
        if (from !== null) { path.moveTo(x(from), firstRow + r); path.lineTo(x(edges[edges.length - 1]), firstRow + r); }
      }
      return path;
    });
    const cells = last.reduce((sum, end, i) => sum + end - first[i], 0);
    const sides = labels.map((own) => Math.sqrt(cells / own.length)); // of an area as if it were a square
    const find = (text) => { // the cell in the middle of the area of this name
      for (let level = levels.length - 1; level >= 0; level--) {
        const own = labels[level].indexOf(text);
        if (own < 0) continue;
        let top = Infinity, bottom = -1, left = Infinity, right = -1;
        for (let i = 0; i < runs; i++) if (ups(id[i])[level] === own) {
          const r = Math.floor(first[i] / cols);
          top = Math.min(top, r); bottom = Math.max(bottom, r + 1); left = Math.min(left, first[i] - r * cols); right = Math.max(right, last[i] - r * cols);
        }
        if (bottom >= 0) return { row: firstRow + (top + bottom) / 2, col: firstCol + (left + right) / 2, rows: bottom - top, cols: right - left };
      }
      return null;
    };
    const lines = (row, col, chosen) => { // names and totals of the areas of a cell, the smallest first
      const own = at(row, col), numbers = totals.get(chosen);
      if (own < 0) return [];
      return ups(own).map((place, level) => {
        const name = { level: levels[level], name: labels[level][place] };
        if (!numbers) return name.level + " " + name.name;
        const i = offsets[level] + place, count = numbers[i], told = { ...name, count: number(count) };
        return data.areas.intervals ? say("area_interval", { ...told, low: number(count - numbers[size + i]), high: number(count + numbers[2 * size + i]) }) : say("area", told);
      }).reverse();
    };
    areas = { borders, sides, lines, find };
  }
  return { land, where, bar, areas };
};
