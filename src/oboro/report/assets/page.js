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
  const say = (key, values = {}) =>
    words[key][language === "ja" ? 1 : 0].replace(/\{(\w+)\}/g, (whole, name) => name in values ? values[name] : whole);
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
    for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (Math.abs(value) >= size) return value / size + letter;
    return String(value);
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
