"use strict";
// Plays the hours of a series: one canvas for the tick that is shown, small ones for all, and the line of one place.
(async () => {
  const facts = oboro.data(), n = facts.blocks, ticks = facts.ticks, [rows, cols] = facts.side;
  const [top, left, high, wide] = facts.window;
  const got = (id) => document.getElementById(id);
  const all = await oboro.unpack("hours-packed", n * 2 + 3 * n * ticks);
  const row = all.subarray(0, n), col = all.subarray(n, 2 * n);
  const part = (number) => all.subarray(2 * n + number * n * ticks, 2 * n + (number + 1) * n * ticks);
  const count = part(0), low = part(1), up = part(2);
  const day = facts.cells ? await oboro.unpack("day-packed", 5 * facts.cells) : null;
  let now = Math.max(facts.states.findIndex((state) => state), 0), picked = 0, timer = 0;
  const sorted = Float64Array.from(count).sort();
  const most = Math.max(sorted[Math.floor(sorted.length * 0.999)] || sorted[sorted.length - 1] || 1, 1);
  for (let i = 0; i < n; i++) if (count[now * n + i] > count[now * n + picked]) picked = i;

  const shade = (value, largest) => {
    const list = facts.colours[oboro.theme()];
    return value <= 0 ? oboro.colour("empty") : list[Math.min(Math.floor(Math.sqrt(value / largest) * list.length), list.length - 1)];
  };
  // a canvas has one pixel for a cell of its own grid, and is stretched by the style
  const draw = (canvas, rowOf, colOf, value, size, deep, broad, largest) => {
    canvas.width = Math.ceil(wide / broad); canvas.height = Math.ceil(high / deep);
    const pen = canvas.getContext("2d");
    for (let i = 0; i < size; i++) {
      pen.fillStyle = shade(value(i), largest);
      const down = Math.floor((rowOf[i] - top) / deep);
      pen.fillRect(Math.floor((colOf[i] - left) / broad), facts.north_up ? canvas.height - 1 - down : down, 1, 1);
    }
    return pen;
  };
  const frame = (canvas, tick) => draw(canvas, row, col, (i) => count[tick * n + i], n, rows, cols, most);
  const mark = (canvas) => { // the picked block, drawn sharp above the stretched pixels
    const big = Math.max(1, Math.round(720 / canvas.width)), copy = document.createElement("canvas");
    copy.width = canvas.width; copy.height = canvas.height;
    copy.getContext("2d").drawImage(canvas, 0, 0);
    canvas.width = copy.width * big; canvas.height = copy.height * big;
    const pen = canvas.getContext("2d"), down = Math.floor((row[picked] - top) / rows);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(copy, 0, 0, canvas.width, canvas.height);
    pen.strokeStyle = oboro.colour("ink"); pen.lineWidth = Math.max(2, big / 6);
    pen.strokeRect(Math.floor((col[picked] - left) / cols) * big, (facts.north_up ? copy.height - 1 - down : down) * big, big, big);
  };
  const legend = (element, text, largest) => {
    const bar = document.createElement("canvas"); bar.width = 150; bar.height = 1;
    const pen = bar.getContext("2d");
    for (let i = 0; i < 150; i++) { pen.fillStyle = shade((i / 150) ** 2 * largest + 1e-9, largest); pen.fillRect(i, 0, 1, 1); }
    const scale = document.createElement("span"); scale.className = "scale";  // its ends stay beside it where the line is short
    scale.append("0", bar, oboro.number(largest, 1) + "+");
    element.replaceChildren(text, scale);
  };

  const names = Array.from({ length: ticks }, (_, tick) => {
    const button = document.createElement("button"), canvas = document.createElement("canvas"), text = document.createElement("span");
    button.type = "button"; button.className = facts.states[tick] || "absent";
    button.append(canvas, text);
    button.addEventListener("click", () => { now = tick; show(); });
    got("every").append(button);
    return { button, canvas, text };
  });

  const svg = (name, facts_, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(facts_)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  };
  const line = () => {
    const chart = got("line"), told = [...Array(ticks).keys()].filter((tick) => facts.states[tick]);
    chart.replaceChildren();
    const at = (tick) => tick * n + picked;
    const largest = Math.max(1, ...told.map((tick) => facts.band ? up[at(tick)] : count[at(tick)]));
    const x = (tick) => 46 + tick * 462 / Math.max(ticks - 1, 1), y = (value) => 212 - value / largest * 196;
    for (let i = 0; i <= 4; i++) {
      svg("line", { class: "rule", x1: 46, x2: 508, y1: y(largest * i / 4), y2: y(largest * i / 4) }, chart);
      svg("text", { x: 40, y: y(largest * i / 4) + 3, "text-anchor": "end" }, chart).textContent = oboro.number(largest * i / 4);
    }
    const every = Math.ceil(ticks / 12);
    for (let tick = 0; tick < ticks; tick += every) svg("text", { x: x(tick), y: 230, "text-anchor": "middle" }, chart).textContent = tick;
    // runs of ticks that are there: a gap is a gap
    let run = [];
    const end = () => {
      // one tick alone has a band, too
      const edge = run.length === 1 ? [[run[0], x(run[0]) - 4], [run[0], x(run[0]) + 4]] : run.map((t) => [t, x(t)]);
      if (run.length > 0 && facts.band) svg("polygon", { class: "band", points: [...edge.map(([t, across]) => `${across},${y(up[at(t)])}`), ...[...edge].reverse().map(([t, across]) => `${across},${y(low[at(t)])}`)].join(" ") }, chart);
      if (run.length > 0) svg("polyline", { points: run.map((t) => `${x(t)},${y(count[at(t)])}`).join(" ") }, chart);
      run = [];
    };
    for (let tick = 0; tick < ticks; tick++) { if (facts.states[tick]) run.push(tick); else end(); }
    end();
    svg("line", { class: "now", x1: x(now), x2: x(now), y1: 14, y2: 214 }, chart);
    for (const tick of told) svg("circle", { class: facts.states[tick], cx: x(tick), cy: y(count[at(tick)]), r: 3 }, chart);
  };

  const show = () => {
    const state = facts.states[now];
    got("slider").value = now;
    got("now").textContent = oboro.say("hour", { tick: now });
    got("state").textContent = oboro.say(state || "absent"); got("state").className = "state " + (state || "absent");
    got("play").textContent = oboro.say(timer ? "pause" : "play");
    frame(got("plane"), now);
    if (n) mark(got("plane")); // of a day all of whose ticks were lost there is no block
    legend(got("legend"), oboro.say("legend", { what: facts.what === "count" ? oboro.say("count") : facts.what, rows, cols }), most);
    names.forEach(({ button, canvas, text }, tick) => {
      if (facts.states[tick]) frame(canvas, tick); else { canvas.width = Math.ceil(wide / cols); canvas.height = Math.ceil(high / rows); }
      text.textContent = oboro.say("hour", { tick });
      button.setAttribute("aria-current", String(tick === now));
    });
    const place = { row_name: facts.names[0], col_name: facts.names[1], row: row[picked], col: col[picked], row_end: Math.min(row[picked] + rows, top + high) - 1, col_end: Math.min(col[picked] + cols, left + wide) - 1 };
    got("where").textContent = n ? oboro.say("where", place) : "";
    const told = { count: oboro.number(count[now * n + picked]), low: oboro.number(low[now * n + picked]), high: oboro.number(up[now * n + picked]) };
    got("told").textContent = n && state ? oboro.say(facts.band ? "told" : "told_alone", told) : "";
    if (n) line();
  };
  const still = () => {
    if (!day) return;
    const c = facts.cells, value = day.subarray(2 * c, 3 * c);
    const order = Float64Array.from(value).sort(), largest = Math.max(order[Math.floor(c * 0.999)] / ticks, 1 / ticks);
    draw(got("day"), day.subarray(0, c), day.subarray(c, 2 * c), (i) => value[i] / ticks, c, 1, 1, largest);
    legend(got("day-legend"), oboro.say("legend_cell", { what: facts.what === "count" ? oboro.say("count") : facts.what }), largest);
  };

  const step = (by) => { now = (now + by + ticks) % ticks; show(); };
  got("slider").addEventListener("input", (event) => { now = Number(event.target.value); show(); });
  got("play").addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = 0; } else timer = setInterval(() => step(1), 700);
    show();
  });
  const spot = new Map(Array.from({ length: n }, (_, i) => [`${Math.floor((row[i] - top) / rows)} ${Math.floor((col[i] - left) / cols)}`, i]));
  const pick = (down, across) => { const found = spot.get(`${down} ${across}`); if (found !== undefined) { picked = found; show(); } };
  got("plane").addEventListener("click", (event) => {
    const box = got("plane").getBoundingClientRect(), tall = Math.ceil(high / rows);
    const down = Math.floor((event.clientY - box.top) / box.height * tall);
    pick(facts.north_up ? tall - 1 - down : down, Math.floor((event.clientX - box.left) / box.width * Math.ceil(wide / cols)));
  });
  got("plane").addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [facts.north_up ? 1 : -1, 0], ArrowDown: [facts.north_up ? -1 : 1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, across] = moves[event.key];
    pick(Math.floor((row[picked] - top) / rows) + down, Math.floor((col[picked] - left) / cols) + across);
  });
  oboro.onChange(() => { show(); still(); });
  show(); still();
  oboro.ready({ ticks });
})();
