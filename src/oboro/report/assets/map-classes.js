"use strict";
// Classes of counts: log-like steps, as many as the counts need, each with a colour of an even scale.
oboro.classes = (() => {
  const steps = (least, most, pattern) => {
    const found = [];
    for (let power = 1; power <= most; power *= 10) for (const step of pattern) if (power * step <= most) found.push(power * step);
    const start = found.findLastIndex((step) => step <= Math.max(least, 1));
    return found.slice(Math.max(start, 0));
  };
  const sample = (values, keep) => {
    const stride = Math.max(1, Math.floor(values.length / 40000)), found = [];
    for (let i = 0; i < values.length; i += stride) if (keep(values[i])) found.push(Math.abs(values[i]));
    return found.sort((a, b) => a - b);
  };
  const classes = (values) => {
    let most = 1;
    for (const value of values) if (value > most) most = value;
    const sorted = sample(values, (value) => value > 0), low = (share) => sorted.length ? sorted[Math.floor(sorted.length * share)] : 1;
    for (const pattern of [[1, 2, 5], [1, 3], [1]]) for (const share of [.02, .1]) { // the lowest counts may share a class
      const found = steps(low(share), most, pattern);
      if (found.length <= 10) return found;
    }
    return steps(1, most, [1]).slice(-10);
  };
  const sideClasses = (values) => {
    const sorted = sample(values, (value) => value !== 0), high = sorted.length ? sorted[Math.floor((sorted.length - 1) * .98)] : 1;
    return steps(1, Math.max(high, 1), [1, 3]).slice(-4);
  };
  const spread = (colours, size) => Array.from({ length: size }, (_, i) => colours[size < 2 ? colours.length - 1 : Math.round(i * (colours.length - 1) / (size - 1))]);
  const rank = (breaks, value) => { let i = breaks.length - 1; while (i > 0 && value < breaks[i]) i--; return i; };
  const colourOf = (scale, value) => {
    if (scale.diverging) return Math.abs(value) < scale.breaks[0] ? null : scale[value < 0 ? "below" : "above"][rank(scale.breaks, Math.abs(value))];
    return value > 0 ? scale.above[rank(scale.breaks, value)] : null;
  };
  const plain = (values, colours) => {
    const breaks = classes(values);
    return { breaks, above: spread(colours.scale, breaks.length), diverging: false };
  };
  const diverging = (values, colours) => {
    const breaks = sideClasses(values), half = colours.difference.length / 2;
    return { breaks, below: spread(colours.difference.slice(0, half).reverse(), breaks.length), above: spread(colours.difference.slice(half), breaks.length), diverging: true };
  };
  return { plain, diverging, rank, colourOf };
})();
