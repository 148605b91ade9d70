"use strict";
// Light or dark, the list of pages, and the search: all of it here, nothing from a server.
(() => {
  const own = document.currentScript, root = document.documentElement, kept = () => { try { return localStorage.getItem("oboro-theme"); } catch { return null; } };
  root.dataset.theme = kept() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  addEventListener("DOMContentLoaded", () => document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("oboro-theme", root.dataset.theme); } catch { /* it lasts for this page */ }
  }));
  // On a narrow screen the list of pages is folded, and comes first.
  const narrow = matchMedia("(max-width: 860px)");
  const fold = () => { document.getElementById("pages").open = !narrow.matches; };
  addEventListener("DOMContentLoaded", fold);
  narrow.addEventListener("change", fold);

  // The index is a script of its own, which is loaded when somebody first searches.
  let index = null, asked = false;
  window.oboroSearch = (pages) => { index = pages.flatMap(([page, title, language, headings]) => headings.map(([at, heading, shown, rest]) => ({ place: page + at, title, heading, shown, language, names: (title + " " + heading).toLowerCase(), all: (shown + " " + rest).toLowerCase() }))); look(); };
  const load = () => {
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = own.dataset.top + "/search.js";
    document.head.append(script);
  };
  const score = (entry, words) => {
    let sum = entry.language === root.lang ? 4 : 0;
    for (const word of words) {
      const at = entry.names.indexOf(word), whole = entry.names.split(/[^\p{L}\p{N}_-]+/u).includes(word);
      if (at >= 0) sum += whole ? 14 : 8; else if (entry.all.includes(word)) sum += new RegExp("(^|[^\\p{L}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "u").test(entry.all) ? 3 : 1; else return 0;
    }
    return sum;
  };
  const look = () => {
    const field = document.getElementById("search"), list = document.getElementById("found");
    const words = field.value.toLowerCase().trim().split(/\s+/).filter(Boolean);
    list.hidden = !words.length || !index;
    if (list.hidden) return;
    const found = index.map((entry) => [score(entry, words), entry]).filter(([sum]) => sum > 0).sort((a, b) => b[0] - a[0]).slice(0, 12);
    list.replaceChildren(...(found.length ? found : [[0, null]]).map(([, entry]) => {
      const item = document.createElement("li");
      if (!entry) { item.textContent = own.dataset.none; item.className = "none"; return item; }
      const link = document.createElement("a"), name = document.createElement("strong"), page = document.createElement("span"), text = document.createElement("small");
      link.href = own.dataset.top + "/" + entry.place; link.lang = entry.language;
      name.textContent = entry.heading; page.textContent = entry.heading === entry.title ? "" : entry.title; text.textContent = entry.shown;
      link.append(name, page, text); item.append(link);
      return item;
    }));
    root.dataset.found = String(found.length);
  };
  addEventListener("DOMContentLoaded", () => {
    const field = document.getElementById("search"), list = document.getElementById("found"), links = () => [...list.querySelectorAll("a")];
    field.addEventListener("focus", load);
    field.addEventListener("input", () => { load(); look(); });
    field.form.addEventListener("submit", (event) => { event.preventDefault(); const first = links()[0]; if (first) first.click(); });
    field.form.addEventListener("keydown", (event) => {
      const all = [field, ...links()], at = all.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") { field.value = ""; look(); field.blur(); }
      if (step && all[at + step]) { event.preventDefault(); all[at + step].focus(); }
    });
    document.addEventListener("click", (event) => { if (!field.form.contains(event.target) || event.target.closest("a")) list.hidden = true; });
    document.addEventListener("keydown", (event) => { if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); } });
    const wanted = new URLSearchParams(location.search).get("q");
    if (wanted) { field.value = wanted; load(); }
  });
})();
