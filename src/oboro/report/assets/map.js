"use strict";
// The map. Counts arrive packed, are summed to blocks of the side that is asked for, and drawn on a canvas.
(async () => {
  const data = oboro.data(), { say, number, short } = oboro;
  const [firstRow, firstCol, rows, cols] = data.window, { rank, colourOf } = oboro.classes;
  const comparing = data.tables.length > 1;
  const byId = (id) => document.getElementById(id);
  const panes = [...document.querySelectorAll(".pane canvas")].map((canvas) => ({ canvas, image: document.createElement("canvas") }));
  const state = { chosen: data.columns.map(() => -1), side: data.sides[0], release: comparing ? Number(byId("release").value) : 0, difference: false, marked: null, tip: null };
  const { load, sourceOf, wanted, pyramid, level, part } = oboro.counts(data, state), { mesh, sideName, placeName, example, find } = oboro.names(data);
  const answersFor = () => (data.answers || {})[state.chosen.join(",")] || null; // as `ask` gives them, for what is chosen
  const bigNumber = (text) => new Intl.NumberFormat("en").format(BigInt(text));
  const view = { row: 0, col: 0, scale: 1, fitted: true };
  const earth = await oboro.earth(data);

  const counted = () => data.count === "count" ? say("count") : data.count; // a name of ours, or of theirs
  // ---- what is shown

  const shownTable = () => comparing ? state.release : 0;
  const differences = () => {
    const true_ = level(0).values, released = level(state.release).values;
    return released.map((value, i) => value - true_[i]);
  };

  // ---- painting: one pixel for each block, then scaled onto the screen

  const rgba = (colour) => { const n = parseInt(colour.slice(1), 16); return (255 << 24 | (n & 255) << 16 | (n >> 8 & 255) << 8 | n >> 16) >>> 0; };
  let plain = null, diverging = null;
  const paint = () => {
    const colours = data.colours[oboro.theme()];
    plain = oboro.classes.plain(level(0).values, colours); // the truth's own, where there is one: steady while eps moves
    diverging = comparing && state.difference ? oboro.classes.diverging(differences(), colours) : null;
    panes.forEach((pane, index) => {
      pane.scale = index === 1 && diverging ? diverging : plain;
      pane.level = level(index === 1 ? state.release : 0);
      pane.values = pane.scale.diverging ? differences() : pane.level.values;
      pane.sparse = Boolean(pane.level.starts);
      // blocks that are too many to be painted at once: from afar the mean of those above 0 in the next larger ones
      const far = pane.sparse ? [...pyramid(0).levels.values()].find((one) => !one.starts) : pane.level;
      pane.far = far;
      const { rows: height, cols: width } = far;
      pane.image.width = width; pane.image.height = height;
      const context = pane.image.getContext("2d"), pixels = context.createImageData(width, height), ints = new Uint32Array(pixels.data.buffer);
      const { breaks } = pane.scale, above = pane.scale.above.map(rgba), under = (pane.scale.below || []).map(rgba);
      for (let r = 0; r < height; r++) {
        let to = (data.northUp ? height - 1 - r : r) * width, from = r * width;
        for (let c = 0; c < width; c++, from++, to++) {
          const value = pane.sparse ? far.values[from] && Math.max(1, far.values[from] / far.filled[from] * (state.side / far.of) ** 2) : pane.values[from];
          if (value === 0) continue;
          if (!pane.scale.diverging) ints[to] = above[rank(breaks, value)];
          else if (Math.abs(value) >= breaks[0]) ints[to] = (value < 0 ? under : above)[rank(breaks, Math.abs(value))];
        }
      }
      context.putImageData(pixels, 0, 0);
    });
    legend();
    figures();
    draw();
  };

  const sign = data.northUp ? -1 : 1;
  const across = () => view.scale * data.aspect;
  const toX = (pane, col) => pane.width / 2 + (col - view.col) * across();
  const toY = (pane, row) => pane.height / 2 + sign * (row - view.row) * view.scale;
  const box = (pane, row, col, height, width) => {
    const x = toX(pane, col), y = toY(pane, data.northUp ? row + height : row);
    return [x, y, width * across(), height * view.scale];
  };
  const drawPane = (pane) => {
    const { canvas, level: shown } = pane, ratio = Math.min(devicePixelRatio || 1, 3), context = canvas.getContext("2d");
    if (canvas.width !== Math.round(pane.width * ratio) || canvas.height !== Math.round(pane.height * ratio)) {
      canvas.width = Math.round(pane.width * ratio); canvas.height = Math.round(pane.height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = oboro.colour("card");
    context.fillRect(0, 0, pane.width, pane.height);
    const whole = box(pane, firstRow, firstCol, rows, cols), block = state.side * view.scale;
    const onMap = (paint) => { // in columns, as wide as they are drawn, and rows
      context.save();
      context.translate(pane.width / 2 - view.col * across(), pane.height / 2 - sign * view.row * view.scale);
      context.scale(view.scale, sign * view.scale);
      paint();
      context.restore();
    };
    context.save();
    context.beginPath(); context.rect(...whole); context.clip();
    context.fillStyle = oboro.colour(data.beneath ? "sea" : "empty"); context.fillRect(...whole);
    if (data.beneath) onMap(() => { context.fillStyle = oboro.colour("empty"); context.fill(earth.land.fill, "evenodd"); });
    context.imageSmoothingEnabled = block * ratio < 1; context.imageSmoothingQuality = "high";
    const seen = pane.sparse ? near(pane) : null;
    if (seen) { context.imageSmoothingEnabled = block * ratio < 1; context.drawImage(seen.image, ...box(pane, seen.row * state.side, seen.col * state.side, seen.rows * state.side, seen.cols * state.side)); }
    else { const { side, row, col, rows: height, cols: width } = pane.far; context.drawImage(pane.image, ...box(pane, row * side, col * side, height * side, width * side)); }
    if (data.beneath) onMap(() => {
      context.strokeStyle = oboro.colour("coast"); context.lineWidth = 1 / view.scale; context.lineJoin = "round";
      context.stroke(earth.land.fill); context.stroke(earth.land.line);
    });
    if (earth.areas) onMap(() => earth.areas.borders.forEach((path, level, all) => {
      const pixels = earth.areas.sides[level] * view.scale;
      if (pixels < 9 && level > 0) return;
      const last = level === all.length - 1 && level > 0;
      context.globalAlpha = last ? Math.min(.75, pixels / 60) : .9;
      context.strokeStyle = oboro.colour("ink"); context.lineWidth = (last ? .8 : 1.5) / view.scale; context.stroke(path);
    }));
    context.globalAlpha = 1;
    if (block >= 14) writeBlocks(context, pane, block);
    context.restore();
    context.strokeStyle = oboro.colour("frame"); context.lineWidth = 1; context.strokeRect(...whole);
    furnish(context, pane);
    if (state.marked) {
      const side = state.side, mark = box(pane, state.marked.row * side, state.marked.col * side, side, side);
      const room = Math.max(0, 7 - Math.min(mark[2], mark[3])) / 2; // never too small to see
      const around = [mark[0] - room, mark[1] - room, mark[2] + 2 * room, mark[3] + 2 * room];
      context.lineWidth = 4; context.strokeStyle = oboro.colour("card"); context.strokeRect(...around);
      context.lineWidth = 2; context.strokeStyle = oboro.colour("ink"); context.strokeRect(...around);
    }
  };
  const near = (pane) => { // the blocks in sight, one pixel each; null from afar
    const side = state.side, { row, col, rows: height, cols: width, starts, across: at, values } = pane.level;
    const halfCols = pane.width / 2 / across(), halfRows = pane.height / 2 / view.scale, clamp = (value, most) => Math.min(Math.max(value, 0), most);
    const left = clamp(Math.floor((view.col - halfCols) / side) - col, width), right = clamp(Math.ceil((view.col + halfCols) / side) - col, width);
    const low = clamp(Math.floor((view.row - halfRows) / side) - row, height), high = clamp(Math.ceil((view.row + halfRows) / side) - row, height);
    const wide = right - left, tall = high - low;
    if (wide * tall > 3e6 || wide < 1 || tall < 1) return null;
    const image = pane.close || (pane.close = document.createElement("canvas"));
    image.width = wide; image.height = tall;
    const context = image.getContext("2d"), pixels = context.createImageData(wide, tall), ints = new Uint32Array(pixels.data.buffer);
    const { breaks } = pane.scale, above = pane.scale.above.map(rgba);
    for (let r = low; r < high; r++) {
      let first = starts[r], last = starts[r + 1];
      while (first < last) { const middle = (first + last) >> 1; if (at[middle] < left) first = middle + 1; else last = middle; }
      const line = (data.northUp ? high - 1 - r : r - low) * wide - left;
      for (let i = first; i < starts[r + 1] && at[i] < right; i++) ints[line + at[i]] = above[rank(breaks, values[i])];
    }
    context.putImageData(pixels, 0, 0);
    return { image, row: row + low, col: col + left, rows: tall, cols: wide };
  };
  const furnish = (context, pane) => { // scale bar, and which way is north
    const bar = earth.bar(Math.min(150, pane.width / 3), view.row, across());
    context.font = "600 12px system-ui, sans-serif"; context.textBaseline = "alphabetic"; context.textAlign = "left";
    const twice = (paint) => { context.lineJoin = "round"; context.strokeStyle = oboro.colour("card"); context.lineWidth = 4; paint(true); context.strokeStyle = context.fillStyle = oboro.colour("ink"); context.lineWidth = 1.5; paint(false); };
    if (bar) {
      const x = 14, y = pane.height - 14;
      twice((halo) => {
        context.beginPath(); context.moveTo(x, y - 5); context.lineTo(x, y); context.lineTo(x + bar[0], y); context.lineTo(x + bar[0], y - 5); context.stroke();
        if (halo) context.strokeText(bar[1], x + 5, y - 6); else context.fillText(bar[1], x + 5, y - 6);
      });
    }
    if (data.earth) {
      const x = 22, y = 16;
      context.textAlign = "center";
      twice((halo) => {
        context.beginPath(); context.moveTo(x, y); context.lineTo(x + 6, y + 15); context.lineTo(x, y + 11); context.lineTo(x - 6, y + 15); context.closePath();
        if (halo) { context.stroke(); context.strokeText(say("north"), x, y + 29); } else { context.fill(); context.fillText(say("north"), x, y + 29); }
      });
    }
  };
  const writeBlocks = (context, pane, block) => { // lines between blocks, and their counts where there is room
    const side = state.side, { row, col, rows: height, cols: width } = pane.level;
    const seen = (from, to, length) => [Math.max(0, Math.floor(from)), Math.min(length, Math.ceil(to))];
    const halfCols = pane.width / 2 / across(), halfRows = pane.height / 2 / view.scale;
    const [left, right] = seen((view.col - halfCols) / side - col, (view.col + halfCols) / side - col, width);
    const [low, high] = seen((view.row - halfRows) / side - row, (view.row + halfRows) / side - row, height);
    context.globalAlpha = .22; context.strokeStyle = oboro.colour("ink"); context.lineWidth = .5; context.beginPath();
    for (let c = left; c <= right; c++) { const x = toX(pane, (col + c) * side); context.moveTo(x, 0); context.lineTo(x, pane.height); }
    for (let r = low; r <= high; r++) { const y = toY(pane, (row + r) * side); context.moveTo(0, y); context.lineTo(pane.width, y); }
    context.stroke(); context.globalAlpha = 1;
    if (block < 40) return;
    context.font = `${Math.min(14, block / 3.6)}px system-ui, sans-serif`; context.textAlign = "center"; context.textBaseline = "middle";
    for (let r = low; r < high; r++) for (let c = left; c < right; c++) {
      const value = pane.sparse ? pane.level.at(r * width + c) : pane.values[r * width + c];
      if (value === 0) continue;
      const colour = colourOf(pane.scale, value), n = colour ? parseInt(colour.slice(1), 16) : 0;
      context.fillStyle = !colour ? oboro.colour("ink") : (n >> 16) * .3 + (n >> 8 & 255) * .59 + (n & 255) * .11 > 140 ? "#10141f" : "#ffffff";
      const text = Math.abs(value) >= 1e6 ? short(Number(value.toPrecision(3))) : number(value);
      context.fillText(text, toX(pane, (col + c + .5) * side), toY(pane, (row + r + .5) * side), block * data.aspect - 4);
    }
  };
  let asked = false;
  const drawNow = () => { asked = false; panes.forEach(drawPane); };
  const draw = () => { if (!asked) { asked = true; requestAnimationFrame(drawNow); } };

  // ---- words around the map

  const legendOf = (scale) => {
    const host = document.createElement("div"), name = document.createElement("p"), row = document.createElement("div");
    name.className = "name"; row.className = "steps";
    name.textContent = scale.diverging ? say("legend_difference") : state.side === 1 && !mesh ? say("legend_cell", { what: counted() }) : say("legend", { what: counted(), side: sideName(state.side) });
    const svg = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);
    const step = (colour, text, kind = "step") => {
      const one = document.createElement("div"), picture = svg("svg"), rect = svg("rect"); // a picture prints where a background does not
      rect.setAttribute("width", "100%"); rect.setAttribute("height", "100%"); rect.setAttribute("fill", colour);
      picture.append(rect); one.className = kind; one.append(picture, text); row.append(one);
    };
    if (scale.diverging) scale.breaks.map((at, i) => [scale.below[i], "−" + short(at)]).reverse().forEach(([colour, text]) => step(colour, text));
    step(oboro.colour("empty"), "0", "step zero");
    scale.breaks.forEach((at, i) => step(scale.above[i], scale.diverging ? "+" + short(at) : i === 0 ? "1" : short(at)));
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", name.textContent + ": 0, " + scale.breaks.map(short).join(", "));
    host.append(name, row);
    return host;
  };
  const legend = () => byId("legend").replaceChildren(...[plain, diverging].filter(Boolean).map(legendOf));
  const figures = () => {
    const table = shownTable(), found = pyramid(table), all = state.chosen.every((code) => code < 0);
    const answers = shownTable() === 0 ? answersFor() : null, asked = answers !== null, exact = BigInt(asked ? answers.total[0] : data.tables[table].total);
    byId("total-interval").textContent = asked ? say("interval", { low: bigNumber(answers.total[1]), high: bigNumber(answers.total[2]) }) : data.partial ? say("unanswered") : "";
    byId("total").textContent = asked ? bigNumber(answers.total[0]) : data.partial ? "–" : all && exact > BigInt(Number.MAX_SAFE_INTEGER) ? new Intl.NumberFormat("en").format(exact) : number(found.total);
    const own = level(table), values = own.values, places = data.places[data.sides.indexOf(state.side)];
    let filled = 0, most = 0;
    for (const value of values) { if (value > 0) filled++; if (value > most) most = value; }
    byId("filled").textContent = say(state.side === 1 ? "filled_cells" : "filled", { share: number(100 * filled / places, 1) + "%", cells: number(places), most: number(most) });
    byId("level").min = data.sides.indexOf(found.least);
    byId("level").value = data.sides.indexOf(state.side);
    byId("level-name").textContent = sideName(state.side);
    byId("level").setAttribute("aria-valuetext", sideName(state.side));
    byId("wanted").placeholder = example();
    if (!state.marked) byId("reading").textContent = say("outside");
    if (!comparing) return;
    const { label, name, role } = data.tables[state.release], told = label ? say("after_eps", { name }) : say("after_table");
    byId("release-name").textContent = (label || "") + (role === "published" ? (label ? " · " : "") + say("published") : "");
    byId("release").setAttribute("aria-valuetext", byId("release-name").textContent);
    byId("caption-1").textContent = state.difference ? say("difference_of", { name: name || say("published") }) : told;
    byId("figures-at").textContent = say("figures_at", { side: sideName(state.side) });
    const errors = differences();
    let squares = 0, sum = 0, largest = 0;
    for (const error of errors) { squares += error * error; sum += Math.abs(error); if (Math.abs(error) > largest) largest = Math.abs(error); }
    byId("figure-rmse").textContent = number(Math.sqrt(squares / errors.length), 2);
    byId("figure-mean_abs").textContent = number(sum / errors.length, 2);
    byId("figure-largest").textContent = number(largest);
    byId("figure-total_error").textContent = number(found.total - pyramid(0).total);
    for (const item of document.querySelectorAll(".series-key li")) item.toggleAttribute("aria-current", Number(item.dataset.release) === state.release);
  };

  // ---- reading a cell

  const oneRow = () => state.side === 1 && data.columns.every((column, i) => state.chosen[i] >= 0 || column.values.length === 1);
  const interval = (position) => { // of one cell in one layer, where the table brought it
    const source = sourceOf(data.tables[shownTable()]), found = [...source.found].filter(([layer]) => wanted(layer));
    if (!source.intervals || !oneRow() || found.length !== 1) return null;
    const { positions, counts, below, above } = found[0][1];
    let low = 0, high = positions.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (positions[middle] < position) low = middle + 1; else high = middle; }
    return positions[low] === position ? [counts[low] - below[low], counts[low] + above[low]] : null;
  };
  const answered = (side, position) => { // what the table itself says about a block: value, low, high
    const answers = answersFor(), found = answers ? answers.found.get(side) : null;
    if (!found) return null;
    const { positions, numbers, size } = found;
    let low = 0, high = size - 1;
    while (low < high) { const middle = (low + high) >> 1; if (positions[middle] < position) low = middle + 1; else high = middle; }
    if (!size || positions[low] !== position) return null;
    const value = numbers[size + low];
    return [value, value - numbers[2 * size + low], value + numbers[3 * size + low]];
  };
  const reading = ({ row, col }) => {
    const shown = level(shownTable()), position = (row - shown.row) * shown.cols + col - shown.col;
    const answer = answered(state.side, position), count = answer ? answer[0] : shown.at(position);
    const middle = [(row + .5) * state.side, (col + .5) * state.side], degrees = earth.where(...middle);
    const reach = answer ? answer.slice(1) : interval(position);
    const unanswered = data.partial && !reach && data.tables[shownTable()].role === "published" && !(oneRow() && count > 0);
    const lines = [["where", placeName(row, col, state.side)], ["count", unanswered ? "–" : number(count)]]; // published cells are not all that is known of a block
    if (comparing) {
      const truth = level(0).at(position);
      lines.push(["truly", say("truly", { count: number(truth) })], ["", say("diff", { count: (count > truth ? "+" : "") + number(count - truth) })]);
    }
    const width = data.widths[mesh ? sideName(state.side) : state.side];
    if (reach) lines.push(["", say("interval", { low: number(Math.max(0, reach[0])), high: number(reach[1]) })]);
    else if (width !== undefined && data.tables[shownTable()].role === "published") lines.push(["", say("within", { width: number(width, width < 10 ? 1 : 0) })]);
    else if (unanswered) lines.push(["quiet", say("unanswered")]);
    else if (data.ownIntervals && (state.side > 1 || count > 0)) lines.push(["quiet", say("sum")]);
    const index = data.sides.indexOf(state.side), larger = data.sides.slice(index + 1);
    const placed = (side) => {
      const around = level(shownTable(), side), times = side / state.side;
      return [around, (Math.floor(row / times) - around.row) * around.cols + Math.floor(col / times) - around.col];
    };
    const usual = data.sides[Math.min(index + (mesh ? 1 : 3), data.sides.length - 1)];
    const wider = unanswered ? larger.find((side) => answered(side, placed(side)[1])) : usual;
    if (wider > state.side) {
      const [around, at] = placed(wider), whole = answered(wider, at);
      const told = [say("around", { count: number(whole ? whole[0] : around.at(at)), side: sideName(wider) })];
      if (whole) told.push(say("interval", { low: number(Math.max(0, whole[1])), high: number(whole[2]) }));
      if (whole || !data.partial) lines.push(["quiet", told.join(" · ")]);
    }
    if (earth.areas) for (const line of earth.areas.lines(Math.floor(middle[0]), Math.floor(middle[1]), state.chosen.join(","))) lines.push(["quiet", line]);
    if (degrees) lines.push(["quiet", degrees]);
    return lines;
  };
  const mark = (cell, pane, announce = true) => {
    const tip = byId("tip"), shown = level(0);
    const inside = cell && cell.row >= shown.row && cell.col >= shown.col && cell.row < shown.row + shown.rows && cell.col < shown.col + shown.cols;
    state.marked = inside ? cell : null;
    state.tip = inside ? pane : null;
    tip.hidden = !inside || !pane;
    if (inside) {
      const lines = reading(cell);
      tip.replaceChildren(...lines.map(([kind, text]) => { const line = document.createElement("div"); line.className = kind; line.textContent = text; return line; }));
      if (announce) byId("reading").textContent = lines.map(([, text]) => text).join(" · ");
      if (pane) {
        const host = byId("panes").getBoundingClientRect(), frame = pane.canvas.getBoundingClientRect();
        const [x, y, width, height] = box(pane, cell.row * state.side, cell.col * state.side, state.side, state.side);
        const left = frame.left - host.left + x, top = frame.top - host.top + y;
        let atX = left + width + 12, atY = top + height + 12;
        if (atX + tip.offsetWidth > host.width - 6) atX = left - tip.offsetWidth - 12;
        if (atY + tip.offsetHeight > host.height - 6) atY = top - tip.offsetHeight - 12;
        const keep = (value, room) => Math.min(Math.max(6, value), Math.max(6, room - 6));
        tip.style.transform = `translate(${keep(atX, host.width - tip.offsetWidth)}px, ${keep(atY, host.height - tip.offsetHeight)}px)`;
      }
    } else byId("reading").textContent = say("outside");
    draw();
  };
  const again = () => { if (state.marked) mark(state.marked, state.tip); else draw(); };

  // ---- moving about; all panes share one view

  const fitScale = () => Math.min(panes[0].width / (cols * data.aspect), panes[0].height / rows) * .97;
  const fit = () => { Object.assign(view, { row: firstRow + rows / 2, col: firstCol + cols / 2, scale: fitScale(), fitted: true }); again(); };
  const settle = () => {
    const least = fitScale() * .6, most = Math.max(90 / Math.max(1, data.sides[0]), least * 2);
    view.scale = Math.min(Math.max(view.scale, least), most);
    view.row = Math.min(Math.max(view.row, firstRow), firstRow + rows);
    view.col = Math.min(Math.max(view.col, firstCol), firstCol + cols);
    view.fitted = false;
  };
  const pan = (x, y) => { view.col -= x / across(); view.row -= sign * y / view.scale; settle(); again(); };
  const zoom = (times, pane = panes[0], x = pane.width / 2, y = pane.height / 2) => {
    const dx = x - pane.width / 2, dy = y - pane.height / 2, before = view.scale;
    view.scale *= times; settle();
    const gain = 1 / before - 1 / view.scale;
    view.col += dx / data.aspect * gain; view.row += sign * dy * gain;
    settle(); again();
  };
  const cellAt = (pane, x, y) => ({
    row: Math.floor((view.row + sign * (y - pane.height / 2) / view.scale) / state.side),
    col: Math.floor((view.col + (x - pane.width / 2) / across()) / state.side),
  });
  const goTo = (row, col, pane = panes[panes.length - 1]) => {
    const cell = { row: Math.floor(row / state.side), col: Math.floor(col / state.side) };
    view.row = (cell.row + .5) * state.side; view.col = (cell.col + .5) * state.side;
    view.scale = Math.max(view.scale, 22 / state.side); settle();
    mark(cell, pane);
  };

  for (const pane of panes) {
    const { canvas } = pane, pointers = new Map();
    const at = (event) => { const frame = canvas.getBoundingClientRect(); return [event.clientX - frame.left, event.clientY - frame.top]; };
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, at(event)); moved = 0; });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event), before = pointers.get(event.pointerId);
      if (!before) { if (event.pointerType !== "touch") mark(cellAt(pane, ...now), pane); return; }
      if (pointers.size === 2) { // pinch
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1], far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
        zoom(far(now) / Math.max(far(before), 1), pane, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
        pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
      } else pan(now[0] - before[0], now[1] - before[1]);
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      pointers.set(event.pointerId, now);
      canvas.classList.toggle("moving", moved > 3);
    });
    const up = (event) => {
      if (pointers.delete(event.pointerId) && moved < 6 && event.type === "pointerup") mark(cellAt(pane, ...at(event)), pane);
      canvas.classList.remove("moving");
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch" && !pointers.size) mark(null); });
    canvas.addEventListener("dblclick", (event) => zoom(event.shiftKey ? .5 : 2, pane, ...at(event)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? .05 : event.ctrlKey ? .01 : .0016)), pane, ...at(event));
      mark(cellAt(pane, ...at(event)), pane);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (arrows && event.shiftKey) pan(-60 * arrows[0], -60 * arrows[1]);
      else if (arrows) {
        const from = state.marked || cellAt(pane, pane.width / 2, pane.height / 2), shown = level(0);
        const keep = (value, least, size) => Math.min(Math.max(value, least), least + size - 1);
        const cell = { row: keep(from.row + sign * arrows[1], shown.row, shown.rows), col: keep(from.col + arrows[0], shown.col, shown.cols) };
        const [x, y, width, height] = box(pane, cell.row * state.side, cell.col * state.side, state.side, state.side);
        if (x < 0 || y < 0 || x + width > pane.width || y + height > pane.height) { view.row = (cell.row + .5) * state.side; view.col = (cell.col + .5) * state.side; settle(); }
        mark(cell, pane);
      } else if (event.key === "+" || event.key === "=" || event.key === ";") zoom(1.5, pane);
      else if (event.key === "-" || event.key === "_") zoom(1 / 1.5, pane);
      else if (event.key === "0" || event.key === "Home") fit();
      else if (event.key === "Escape") mark(null);
      else return;
      event.preventDefault();
    });
  }
  byId("zoom-in").addEventListener("click", () => zoom(1.6));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.6));
  byId("fit").addEventListener("click", fit);
  byId("level").addEventListener("input", (event) => {
    const middle = state.marked && { row: (state.marked.row + .5) * state.side, col: (state.marked.col + .5) * state.side }, pane = state.tip;
    state.side = data.sides[Number(event.target.value)];
    if (middle) state.marked = { row: Math.floor(middle.row / state.side), col: Math.floor(middle.col / state.side) };
    state.tip = pane;
    paint(); again();
  });
  for (const select of document.querySelectorAll("select.category")) select.addEventListener("change", () => {
    state.chosen[Number(select.dataset.column)] = Number(select.value);
    state.side = Math.max(state.side, pyramid(shownTable()).least);
    paint(); again();
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = byId("wanted"), area = earth.areas && earth.areas.find(input.value.trim()), cell = area || find(input.value);
    input.setAttribute("aria-invalid", String(!cell));
    if (area) { view.scale = Math.min(panes[0].width / (area.cols * data.aspect), panes[0].height / area.rows) * .8; view.row = area.row; view.col = area.col; settle(); mark({ row: Math.floor(area.row / state.side), col: Math.floor(area.col / state.side) }, panes[0]); }
    else if (cell) goTo(cell.row, cell.col);
    else { mark(null); byId("reading").textContent = say("not_found", { example: example() }); }
  });
  if (comparing) {
    byId("release").addEventListener("input", (event) => { state.release = Number(event.target.value); paint(); again(); });
    byId("side-by-side").addEventListener("change", (event) => { state.difference = event.target.value === "difference"; paint(); again(); });
  } else byId("picture").addEventListener("click", () => panes[0].canvas.toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob); link.download = "map.png"; link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }));

  // ---- begin

  document.documentElement.style.setProperty("--ratio", String(cols * data.aspect / rows));
  const measure = () => {
    for (const pane of panes) { pane.width = Math.max(1, pane.canvas.clientWidth); pane.height = Math.max(1, pane.canvas.clientHeight); }
    if (view.fitted) fit(); else { settle(); again(); }
    drawNow(); // a size is reported before the frame is shown: no stretched picture in between
  };
  await Promise.all(data.tables.flatMap((table) => table.sources).map(load));
  for (const answers of Object.values(data.answers || {})) {
    answers.found = new Map();
    for (const [side, { id, size }] of Object.entries(answers.sides)) {
      const numbers = await oboro.unpack(id, 4 * size), positions = numbers.subarray(0, size);
      for (let i = 0, position = -1; i < size; i++) positions[i] = position += positions[i];
      answers.found.set(Number(side), { positions, numbers, size });
    }
  }
  for (const pane of panes) { pane.width = Math.max(1, pane.canvas.clientWidth); pane.height = Math.max(1, pane.canvas.clientHeight); }
  paint();
  fit();
  drawNow();
  const watch = new ResizeObserver(() => { if (!matchMedia("print").matches) measure(); });
  panes.forEach((pane) => watch.observe(pane.canvas));
  oboro.onChange(() => { paint(); again(); drawNow(); });
  const at = new URLSearchParams(location.hash.slice(1)).get("at"), start = at && find(at); // map.html#at=120,305
  if (start) { goTo(start.row, start.col); drawNow(); }
  oboro.ready({ total: String(pyramid(shownTable()).total) });
})().catch(oboro.trouble);
