"use strict";
// Names of cells: rows and columns of a grid, or mesh codes of JIS X 0410; and the way back, for the search.
oboro.names = (data) => {
  const { say, number } = oboro, mesh = data.place.kind === "mesh", [firstRow, firstCol, rows, cols] = data.window;

  const sideName = (side) => mesh ? data.place.levels[side] : side === 1 ? say("one_cell") : say("cells", { side: number(side) });
  const pad = (value, width) => String(value).padStart(width, "0");
  const meshCode = (row, col, side) => { // JIS X 0410; everything in units of 250 m
    const size = side * data.place.unit, y = row * size, x = col * size, digit = (of, unit) => Math.floor(of / unit);
    const quarter = (unit) => 1 + 2 * (digit(y, unit) % 2) + digit(x, unit) % 2;
    let code = pad(digit(y, 320), 2) + pad(digit(x, 320), 2);
    if (size <= 40) code += "" + digit(y, 40) % 8 + digit(x, 40) % 8;
    if (size === 20) code += quarter(20);
    if (size <= 4) code += "" + digit(y, 4) % 10 + digit(x, 4) % 10;
    if (size <= 2) code += quarter(2);
    if (size <= 1) code += quarter(1);
    return code;
  };
  const placeName = (row, col, side) => {
    if (mesh) return say("mesh_cell", { name: data.place.names[0], code: meshCode(row, col, side), side: sideName(side) });
    const span = (at, end) => side === 1 ? String(at) : `${at * side}–${Math.min((at + 1) * side, end) - 1}`;
    return say("row_col", { row_name: data.place.names[0], col_name: data.place.names[1], row: span(row, data.place.rows), col: span(col, data.place.cols) });
  };
  const example = () => {
    const row = firstRow + Math.floor(rows / 2), col = firstCol + Math.floor(cols / 2);
    return mesh ? meshCode(row, col, 1) : `${row}, ${col}`;
  };
  const find = (text) => { // the cell in the middle of what is named
    const plainText = text.normalize("NFKC").trim();
    let row, col;
    if (mesh) {
      const sizes = { 4: 320, 6: 40, 7: 20, 8: 4, 9: 2, 10: 1 }, code = plainText.replace(/[\s-]/g, ""), size = sizes[code.length], d = [...code].map(Number);
      if (!size || !/^\d+$/.test(code)) return null;
      const quarter = (at, unit) => { y += ((d[at] - 1) >> 1) * unit; x += ((d[at] - 1) & 1) * unit; };
      let y = (d[0] * 10 + d[1]) * 320, x = (d[2] * 10 + d[3]) * 320;
      if (code.length >= 6) { y += d[4] * 40; x += d[5] * 40; }
      if (code.length === 7) quarter(6, 20);
      if (code.length >= 8) { y += d[6] * 4; x += d[7] * 4; }
      if (code.length >= 9) quarter(8, 2);
      if (code.length >= 10) quarter(9, 1);
      row = Math.floor((y + size / 2) / data.place.unit); col = Math.floor((x + size / 2) / data.place.unit);
    } else {
      const pair = /^\D*(\d+)\D+(\d+)\D*$/.exec(plainText);
      if (!pair) return null;
      row = Number(pair[1]); col = Number(pair[2]);
    }
    const inside = row >= firstRow && col >= firstCol && row < firstRow + rows && col < firstCol + cols;
    return inside ? { row, col } : null;
  };
  return { mesh, sideName, placeName, example, find };
};
