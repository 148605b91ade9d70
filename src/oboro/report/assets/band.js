// The published output in its band: a part of it in full, and all of it below. Zoom and move by wheel, drag, keys or buttons.
addEventListener("DOMContentLoaded", () => {
  const { say, number, colour } = oboro, data = oboro.data();
  const { y, width, truth, bottom, top, every, start, step, from } = data, count = y.length;
  const detail = document.getElementById("detail"), whole = document.getElementById("whole");
  const LEFT = 58, FOOT = 30, HEAD = 10, LEAST = Math.min(count, 12);
  const state = { first: 0, span: Math.min(count, Math.max(LEAST, data.window)) };
  const dated = start !== null, day = 86400;

  const seconds = (index) => start + (from + index * every) * step;
  const two = (value) => String(value).padStart(2, "0");
  const when = (index, brief) => {
    if (!dated) return number(from + index * every);
    const at = new Date(seconds(index) * 1000), date = `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
    const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
    return brief ? (step * every * state.span > 4 * day ? date : `${date.slice(5)} ${clock}`) : step * every % day === 0 ? date : `${date} ${clock}`;
  };
  const told = (value) => Number(value.toPrecision(4)).toString().replace("-", "−");
  const ticks = (low, high, about) => {
    const span = high - low || 1, base = 10 ** Math.floor(Math.log10(span / about));
    const apart = [1, 2, 5, 10].map((times) => times * base).find((each) => span / each <= about), found = [];
    for (let k = Math.ceil(low / apart - 1e-9); k * apart <= high + 1e-9 * span; k++) found.push(k * apart);
    return found;
  };
  const moments = (about) => { // where the time axis has its marks, in samples
    const { first, span } = state;
    if (!dated) return ticks(first, first + span - 1, about).filter((each) => each === Math.round(each));
    const each = step * every, sizes = [60, 300, 900, 1800, 3600, 10800, 21600, 43200, day, 2 * day, 3 * day, 7 * day, 14 * day, 30.5 * day, 61 * day, 91.5 * day, 182.6 * day, 365.25 * day];
    const size = sizes.find((one) => span * each / one <= about) || sizes[sizes.length - 1], found = [];
    for (let at = Math.ceil(seconds(first) / size) * size; at <= seconds(first + span - 1); at += size) found.push((at - start) / step / every - from / every);
    return found;
  };

  const paint = (canvas, first, span, framed) => {
    const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
    canvas.width = wide * ratio; canvas.height = high * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio); pen.clearRect(0, 0, wide, high);
    const left = framed ? LEFT : 0, foot = framed ? FOOT : 0, room = wide - left - (framed ? 12 : 0);
    const px = (index) => left + (span > 1 ? (index - first) / (span - 1) : .5) * room;
    const py = (value) => HEAD + (1 - (Math.min(Math.max(value, bottom), top) - bottom) / (top - bottom)) * (high - foot - HEAD - 4);
    const begin = Math.max(0, Math.floor(first)), end = Math.min(count - 1, Math.ceil(first + span - 1));
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    if (framed) {
      pen.strokeStyle = colour("line"); pen.fillStyle = colour("soft"); pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const value of ticks(bottom, top, 6)) { pen.beginPath(); pen.moveTo(left, py(value)); pen.lineTo(wide - 12, py(value)); pen.stroke(); pen.fillText(told(value), left - 6, py(value)); }
      pen.textAlign = "center"; pen.textBaseline = "top";
      for (const index of moments(Math.max(2, Math.floor(room / 110)))) if (index >= first && index <= first + span - 1) { pen.fillText(when(index, true), Math.min(Math.max(px(index), left + 32), wide - 44), high - foot + 9); pen.beginPath(); pen.moveTo(px(index), high - foot); pen.lineTo(px(index), high - foot + 5); pen.stroke(); }
    }
    // one step a pixel: the widest band, the whole range and the median of what falls into it: nothing is left out, and a year is no solid block
    const each = Math.max(1, (end - begin + 1) / Math.max(room, 1)), columns = [];
    for (let at = begin; at <= end;) {
      const last = Math.max(at, Math.min(end, Math.ceil(at + each) - 1));
      let low = Infinity, up = -Infinity, least = Infinity, most = -Infinity;
      for (let i = at; i <= last; i++) { low = Math.min(low, y[i] - width[i]); up = Math.max(up, y[i] + width[i]); least = Math.min(least, y[i]); most = Math.max(most, y[i]); }
      const sorted = y.slice(at, last + 1).sort((a, b) => a - b), middle = sorted.length >> 1;
      columns.push([px((at + last) / 2), low, up, least, most, sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2]);
      at = last + 1;
    }
    const shade = (below, above) => {
      pen.beginPath();
      columns.forEach((one, i) => i ? pen.lineTo(one[0], py(one[above])) : pen.moveTo(one[0], py(one[above])));
      for (let i = columns.length - 1; i >= 0; i--) pen.lineTo(columns[i][0], py(columns[i][below]));
      pen.closePath(); pen.globalAlpha = .19; pen.fillStyle = colour("s0"); pen.fill(); pen.globalAlpha = 1;
    };
    shade(1, 2);
    const line = (colourName, thick, ends) => {
      pen.beginPath(); pen.strokeStyle = colour(colourName); pen.lineWidth = thick; pen.lineJoin = "round";
      ends.forEach(([x, low, up], i) => { i ? pen.lineTo(x, py(low)) : pen.moveTo(x, py(low)); if (up !== low) pen.lineTo(x, py(up)); });
      pen.stroke();
    };
    const crowded = each > 2;
    if (crowded) shade(3, 4);
    line("s0", framed ? 1.6 : 1, columns.map(([x, , , least, most, median]) => crowded ? [x, median, median] : [x, least, most]));
    if (truth && framed) line("ink", 1.6, truth.slice(begin, end + 1).map((value, i) => [px(begin + i), value, value]));
    return px;
  };

  let place = (index) => index;
  const draw = () => {
    state.span = Math.min(count, Math.max(LEAST, state.span));
    state.first = Math.min(Math.max(0, state.first), count - state.span);
    place = paint(detail, state.first, state.span, true);
    const all = state.span >= count;
    whole.hidden = all && count === state.span;
    if (!whole.hidden) {
      const px = paint(whole, 0, count, false), pen = whole.getContext("2d");
      pen.fillStyle = colour("accent"); pen.globalAlpha = .16;
      pen.fillRect(px(state.first), 0, Math.max(3, px(state.first + state.span - 1) - px(state.first)), whole.clientHeight);
      pen.globalAlpha = 1; pen.strokeStyle = colour("accent"); pen.lineWidth = 1.5;
      pen.strokeRect(px(state.first), .75, Math.max(3, px(state.first + state.span - 1) - px(state.first)), whole.clientHeight - 1.5);
    }
    document.getElementById("shown").textContent = say("from_to", { first: when(Math.round(state.first)), last: when(Math.round(state.first + state.span - 1)) });
    oboro.ready({ first: String(Math.round(state.first)), span: String(Math.round(state.span)) });
  };
  const zoom = (factor, middle = state.first + state.span / 2) => {
    const span = Math.min(count, Math.max(LEAST, state.span * factor));
    state.first = middle - (middle - state.first) * span / state.span;
    state.span = span;
    draw();
  };
  const move = (share) => { state.first += share * state.span; draw(); };
  const under = (event) => {
    const box = detail.getBoundingClientRect(), room = box.width - LEFT - 12;
    return state.first + (event.clientX - box.left - LEFT) / room * (state.span - 1);
  };
  const read = (index) => {
    const at = Math.round(index);
    if (at < 0 || at >= count) return;
    const values = { when: when(at), value: told(y[at]), low: told(y[at] - width[at]), high: told(y[at] + width[at]), unit: data.unit ? " " + data.unit : "" };
    document.getElementById("reading").textContent = say("reading", values);
  };

  detail.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : .8, under(event)); }, { passive: false });
  let held = null;
  detail.addEventListener("pointerdown", (event) => { held = { x: event.clientX, first: state.first }; detail.setPointerCapture(event.pointerId); detail.classList.add("held"); });
  detail.addEventListener("pointermove", (event) => {
    if (held) { state.first = held.first - (event.clientX - held.x) / (detail.clientWidth - LEFT - 12) * state.span; draw(); }
    read(under(event));
  });
  for (const end of ["pointerup", "pointercancel"]) detail.addEventListener(end, () => { held = null; detail.classList.remove("held"); });
  const jump = (event) => { state.first = (event.clientX - whole.getBoundingClientRect().left) / whole.clientWidth * count - state.span / 2; draw(); };
  whole.addEventListener("pointerdown", (event) => { whole.setPointerCapture(event.pointerId); jump(event); });
  whole.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); });
  detail.closest("section").addEventListener("keydown", (event) => { // whichever of its parts was used last
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), "+": () => zoom(.7), "-": () => zoom(1.4), 0: () => { state.span = count; draw(); } };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); read(state.first + state.span / 2); }
  });
  for (const [id, act] of Object.entries({ back: () => move(-.8), on: () => move(.8), closer: () => zoom(.6), wider: () => zoom(1.67), everything: () => { state.span = count; draw(); } }))
    document.getElementById(id).addEventListener("click", act);
  addEventListener("resize", draw);
  oboro.onChange(draw);
  draw();
});
