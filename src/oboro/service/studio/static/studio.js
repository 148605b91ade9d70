"use strict";
// Theme, the slider and its numbers, dialogs, clocks. The pages can be read without it. Nothing is sent but to this address.
(() => {
  const root = document.documentElement;
  const memory = {
    get(key) { try { return localStorage.getItem("oboro-" + key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem("oboro-" + key, value); } catch { /* then it is forgotten */ } },
  };
  const night = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const theme = () => printing ? "light" : memory.get("theme") || (night.matches ? "dark" : "light");
  const dress = () => { root.dataset.theme = theme(); };
  dress();
  night.addEventListener("change", dress);
  addEventListener("beforeprint", () => { printing = true; dress(); });
  addEventListener("afterprint", () => { printing = false; dress(); });

  const find = (id) => document.getElementById(id);
  const three = (value) => String(Number(value.toPrecision(3)));

  // The slider runs from rough to exact: an error on a logarithmic scale, or eps on one.
  const first = () => document.querySelector("input[name=first]:checked, input[name=first][type=hidden]")?.value || "accuracy";
  const ends = () => {
    const slider = find("slider"), told = document.querySelector("#forecast [data-low]");
    if (first() === "eps") return [Number(slider.dataset.least), Number(slider.dataset.most)];
    return told ? [Number(told.dataset.high), Number(told.dataset.low)] : null;
  };
  const box = () => find(first() === "eps" ? "eps" : "within");
  const slid = () => {
    const between = ends(), slider = find("slider");
    if (!between) return;
    const [from, to] = between;
    box().value = three(from * (to / from) ** (slider.value / 1000));
  };
  let changed = false; // since the last forecast was requested: what arrives now answers an older form, and its numbers are not written into this one
  let asked = null; // that request
  let awaited = false; // whether a forecast is to come: what is shown answers an older form
  let opens = null; // the dialog that was asked for meanwhile: it opens with the forecast that comes, and not with one that goes
  const settled = () => { // after a forecast: numbers and slider say what it says
    if (changed) return;
    const slider = find("slider"), told = document.querySelector("#forecast [data-eps]");
    if (!slider || !told) return;
    const within = find("within"), eps = find("eps");
    if (first() !== "eps") eps.value = told.dataset.eps;
    if (within && told.dataset.reach && told.dataset.decided === "price" && document.activeElement !== within)
      within.value = three(Number(told.dataset.reach));
    const between = ends();
    if (!between || document.activeElement === slider) return;
    const [from, to] = between, value = Number(box().value);
    if (value > 0) slider.value = 1000 * Math.log(value / from) / Math.log(to / from);
  };

  document.addEventListener("input", (event) => {
    if (event.target.closest("#question")) changed = awaited = true;
    if (event.target.closest("#columns")) unwritten = typed = true;
    if (event.target.id === "slider") slid();
    // another column is another scale: the price stays, and the error follows
    if (["question", "columns"].includes(event.target.name) && find("within")) find("within").value = "";
  }, true);
  document.addEventListener("change", (event) => { if (event.target.name === "first") settled(); });
  // Answers may cross on their way, and the form itself may be replaced between a request and its answer: the last request alone counts.
  const forecasts = (event) => event.detail?.ctx?.target?.id === "forecast";
  const late = (event) => { if (forecasts(event) && event.detail.ctx !== asked) event.preventDefault(); };
  document.addEventListener("htmx:before:request", (event) => { if (forecasts(event)) { asked = event.detail.ctx; changed = false; awaited = true; delete asked.target.dataset.failed; } });
  document.addEventListener("htmx:after:request", late); // it does not become the address of the page either
  document.addEventListener("htmx:before:swap", late);
  document.addEventListener("htmx:after:swap", (event) => { if (event.detail?.ctx === asked) settled(); });
  document.addEventListener("htmx:finally:request", (event) => {
    if (event.detail?.ctx !== asked || changed) return;
    awaited = asked.status !== "swapped"; // what did not come is requested again by whoever wants to pay
    if (awaited) asked.target.dataset.failed = "";
    const dialog = !awaited && opens && find(opens);
    opens = null;
    if (dialog && !document.querySelector("#forecast [data-opens]").disabled) dialog.showModal();
  });

  // A declaration: what is saved is what the fields say, also if their TOML is still on its way; whoever writes TOML is not written over.
  let unwritten = false, typed = false, wrote = null, saves = null; // typed: since the last request
  const writes = (event) => event.detail?.ctx?.target?.id === "written";
  document.addEventListener("htmx:before:request", (event) => { if (writes(event)) { wrote = event.detail.ctx; typed = false; } });
  document.addEventListener("htmx:before:swap", (event) => {
    const toml = find("toml");
    if (writes(event) && document.activeElement === toml && toml.value !== toml.defaultValue) event.preventDefault();
  });
  document.addEventListener("htmx:finally:request", (event) => {
    if (!wrote || event.detail?.ctx !== wrote || typed) return;
    const form = wrote.status === "swapped" ? saves : null;
    unwritten = false;
    saves = null;
    form?.requestSubmit();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") { memory.set("theme", theme() === "dark" ? "light" : "dark"); dress(); }
    if (button.dataset.opens && awaited) {
      opens = button.dataset.opens;
      if (find("forecast").dataset.failed === "") find("question").dispatchEvent(new Event("input", { bubbles: true }));
    } else if (button.dataset.opens) find(button.dataset.opens).showModal();
    if (button.dataset.closes) find(button.dataset.closes).close();
  });

  // A file that was dropped goes to the studio's own folder, as it is.
  const send = async (file) => {
    const told = find("dropped");
    told.textContent = "… " + file.name;
    const answer = await fetch("/studio/declare/file?name=" + encodeURIComponent(file.name), { method: "PUT", body: file });
    const said = await answer.json().catch(() => ({ message: String(answer.status) }));
    if (answer.ok && said.place) location.href = said.place;
    else told.textContent = [said.message, said.needed].filter(Boolean).join(": ");
  };
  document.addEventListener("change", (event) => { if (event.target.id === "file" && event.target.files[0]) send(event.target.files[0]); });
  document.addEventListener("dragover", (event) => { if (event.target.closest?.("#drop")) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!event.target.closest?.("#drop")) return;
    event.preventDefault();
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "save") return;
    if (unwritten) { event.preventDefault(); saves = event.target; }
    else event.target.elements.toml.value = find("toml").value;
  }, true);

  addEventListener("DOMContentLoaded", () => {
    const waits = document.querySelector("[data-again]");
    if (waits) setTimeout(() => location.reload(), Number(waits.dataset.again));
    document.querySelector(".places [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    settled();
  });
})();
