"use strict";
// Light or dark: as the reader's system says, until the reader says otherwise.
(() => {
  const root = document.documentElement, kept = () => { try { return localStorage.getItem("oboro-theme"); } catch { return null; } };
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
})();
