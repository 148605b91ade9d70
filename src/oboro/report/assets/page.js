"use strict";
// What all reports share: theme, language, numbers, packed integers. Runs in the head, before anything is drawn.
const oboro = (() => {
  const root = document.documentElement;
  const words = JSON.parse(document.getElementById("oboro-words").textContent);
  const listeners = [];
  const changed = () => listeners.forEach((listener) => listener());

  const memory = { // a page opened from a file may have no storage
    get(key) { try { return localStorage.getItem("oboro-" + key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem("oboro-" + key, value); } catch { /* then it is forgotten */ } },
  };

  const trouble = (error) => { root.dataset.error = String((error && error.message) || error); };
  addEventListener("error", (event) => trouble(event.error || event.message));
  addEventListener("unhandledrejection", (event) => trouble(event.reason));

  const night = matchMedia("(prefers-color-scheme: dark)");
  let chosen = memory.get("theme"), printing = false;
  const theme = () => printing ? "light" : chosen || (night.matches ? "dark" : "light");
  const dress = () => { root.dataset.theme = theme(); changed(); };
  night.addEventListener("change", dress);
  addEventListener("beforeprint", () => { printing = true; dress(); });
  addEventListener("afterprint", () => { printing = false; dress(); });

  let language = root.dataset.language || memory.get("language")
    || (/^ja\b/i.test(navigator.language || "") ? "ja" : "en");
  const japanese = /[\u3005-\u3007\u3041-\u30ff\u4e00-\u9fff]/;
  const joined = (before, after) => // the space that keeps a word of other letters apart goes where both sides are Japanese
    before.endsWith(" ") && japanese.test(before.at(-2) || "") && japanese.test(after[0] || "") ? before.slice(0, -1) + after
      : after[0] === " " && japanese.test(before.at(-1) || "") && japanese.test(after[1] || "") ? before + after.slice(1) : before + after;
  const say = (key, values = {}) =>
    words[key][language === "ja" ? 1 : 0].split(/(\{\w+\})/)
      .map((part) => part[0] === "{" && part.slice(1, -1) in values ? String(values[part.slice(1, -1)]) : part).reduce(joined, "");
  const speak = () => {
    root.lang = language;
    for (const element of document.querySelectorAll("[data-en]")) element.textContent = element.getAttribute("data-" + language);
    for (const element of document.querySelectorAll("[data-label-en]")) {
      const name = element.getAttribute("data-label-" + language);
      element.setAttribute("aria-label", name);
      if (element.tagName === "BUTTON") element.title = name;
    }
    const button = document.getElementById("language");
    button.textContent = language === "ja" ? "English" : "日本語";
    button.lang = language === "ja" ? "en" : "ja";
    changed();
  };

  root.dataset.theme = theme();
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      chosen = theme() === "dark" ? "light" : "dark";
      memory.set("theme", chosen);
      dress();
    });
    document.getElementById("language").addEventListener("click", () => {
      language = language === "ja" ? "en" : "ja";
      memory.set("language", language);
      speak();
    });
    speak();
  });

  const number = (value, digits = 0) => {
    const told = new Intl.NumberFormat("en", { maximumFractionDigits: digits }).format(value).replace("-", "−");
    return Math.abs(value) > Number.MAX_SAFE_INTEGER ? say("rounded", { count: told }) : told;
  };
  const short = (value) => {
    const sizes = language === "ja" ? [[1e12, "兆"], [1e8, "億"], [1e4, "万"]] : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    for (const [size, letter] of sizes)
      if (Math.abs(value) >= size) return value / size + letter;
    return number(value, 9);
  };

  // Integers in base 128, the low digit first, the top bit set on all but the last; gzip; base64.
  const unpack = async (id, count) => {
    const text = atob(document.getElementById(id).textContent);
    const packed = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const numbers = new Float64Array(count);
    for (let at = 0, i = 0; i < count; i++) {
      let value = 0, scale = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
      numbers[i] = value;
    }
    return numbers;
  };

  return {
    say, number, short, unpack, trouble,
    data: () => JSON.parse(document.getElementById("oboro-data").textContent),
    theme: () => root.dataset.theme,
    colour: (name) => getComputedStyle(root).getPropertyValue("--" + name).trim(),
    onChange: (listener) => listeners.push(listener),
    ready: (facts) => { Object.assign(root.dataset, facts, { ready: "1" }); },
  };
})();
