// The dashboard in the browser: times and units that count, parts that follow the queue, keys.
// Without it every page works, and stands still.
(() => {
  "use strict";
  const every = Number(document.body.dataset.every); // ms
  let ahead = 0; // ms that the server's clock is ahead of this one
  let tag = null;
  let failures = 0;
  let since = null;

  const span = (ms) => {
    const s = Math.abs(ms) / 1000;
    if (s < 60) return s < 9.95 ? `${s.toFixed(1)} s` : `${Math.floor(s)} s`;
    const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    const first = units.findIndex(([size]) => s >= size);
    let rest = Math.floor(s);
    return units.slice(first, first + 2).map(([size, name]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count ? `${count} ${name}` : "";
    }).filter(Boolean).join(" ");
  };

  // Times of the day are UTC everywhere; the title of each also has the reader's own zone.
  const utc = (at, digits = 16) => {
    const [text, today] = [at, Date.now() + ahead].map((ms) => new Date(ms).toISOString());
    const day = text.slice(0, 10) === today.slice(0, 10) ? "" : `${text.slice(0, 10)} `;
    return `${day}${text.slice(11, digits)} UTC`;
  };
  const SECONDS = 19;

  const said = (at, now, how) => {
    const rest = at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
    if ("utc" in how) return utc(at, SECONDS);
    if ("until" in how) return `${utc(at, SECONDS)}, ${rest}`;
    if ("about" in how) return at > now ? `${utc(at, at > now + 12e4 ? 16 : SECONDS)}, ${rest}` : "now";
    if (!("clock" in how)) return rest;
    return at > now + 9e4 ? `${rest}, ${utc(at)}` : at > now ? rest : "now";
  };

  const tick = () => {
    const now = Date.now() + ahead;
    for (const time of document.querySelectorAll("time[data-at]")) {
      const at = Number(time.dataset.at);
      if (!time.title) time.title = `${time.textContent}; ${new Date(at).toLocaleString([], { timeZoneName: "short" })}`;
      if (Math.abs(at - now) < 30 * 864e5) time.textContent = said(at, now, time.dataset);
    }
    for (const gauge of document.querySelectorAll("[data-left]")) {
      const { left, burst, rate, seen } = gauge.dataset;
      const grown = Number(left) + (now - Number(seen)) / 1000 * Number(rate);
      const units = Math.max(0, Math.min(Number(burst), grown));
      gauge.querySelector("meter").value = units;
      gauge.querySelector(".left").textContent = units < 100 ? units.toFixed(1) : Math.floor(units);
    }
  };

  const clock = (answer) => {
    const sent = Number(answer.headers.get("x-dpq-now"));
    if (sent) ahead = sent - Date.now();
  };

  const away = (text) => {
    const bar = document.getElementById("away");
    since = since || new Date();
    bar.textContent = `${text} Since ${utc(since, SECONDS)}; trying again.`;
    bar.hidden = false;
    document.body.classList.add("away");
  };

  const back = () => {
    if (!since) return;
    since = null;
    document.getElementById("away").hidden = true;
    document.body.classList.remove("away");
    if (document.body.dataset.failed) location.reload();
  };

  // Changes a node into another one: what is the same stays, with its focus, selection and scroll.
  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = fresh.data);
    if (old === document.activeElement && old.matches("input, select, textarea")) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    grow(old, fresh);
  };
  const grow = (old, fresh) => {
    const [here, there] = [[...old.childNodes], [...fresh.childNodes]];
    there.forEach((node, n) => (here[n] ? morph(here[n], node) : old.append(node)));
    here.slice(there.length).forEach((node) => node.remove());
  };

  const was = {};
  const swap = (html) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const old of document.querySelectorAll("[data-live], #doing")) {
      const fresh = page.getElementById(old.id);
      if (!fresh) continue;
      old.toggleAttribute("data-live", fresh.hasAttribute("data-live"));
      if (was[old.id] === fresh.innerHTML) continue;
      was[old.id] = fresh.innerHTML;
      const focus = old.contains(document.activeElement) ? document.activeElement.dataset.key : null;
      for (const chart of old.querySelectorAll("[data-chart][data-at]")) keep(chart, fresh);
      grow(old, fresh);
      if (focus && document.activeElement.dataset.key !== focus) {
        (old.querySelector(`[data-key="${CSS.escape(focus)}"]`) || old).focus();
      }
    }
    tick();
  };

  const titleOf = (html) => {
    const title = new DOMParser().parseFromString(html, "text/html").querySelector("main h1");
    return `${title ? title.textContent : "The dashboard does not answer"}.`;
  };

  const look = async () => {
    if (!document.hidden && (document.querySelector("[data-live]") || since)) {
      try {
        const headers = tag ? { "If-None-Match": tag } : {};
        const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
        clock(answer);
        if (answer.status === 200) {
          tag = answer.headers.get("etag");
          swap(await answer.text());
        }
        if (answer.status >= 500) away(titleOf(await answer.text()));
        else if (answer.type === "opaqueredirect") location.reload();
        else back();
        failures = answer.status >= 500 ? failures + 1 : 0;
      } catch {
        failures += 1;
        away("The dashboard does not answer.");
      }
    }
    setTimeout(look, Math.min(every * 2 ** Math.min(failures, 2), 8000));
  };

  // Lists: select all, and how many are selected
  const list = document.querySelector("form[data-list]");
  const boxes = () => [...list.querySelectorAll("input[name=ids]")];
  const count = () => {
    const n = boxes().filter((box) => box.checked).length;
    const said = list.querySelector("[data-count]");
    const all = list.querySelector("input[data-all]");
    if (said) said.textContent = n ? `${n} selected` : "";
    if (all) { all.checked = n > 0 && n === boxes().length; all.indeterminate = n > 0 && n < boxes().length; }
  };
  if (list) {
    list.addEventListener("change", (event) => {
      if (event.target.matches("[data-all]")) boxes().forEach((box) => { box.checked = event.target.checked; });
      count();
    });
    count();
  }

  // A search goes on by itself until its page is full, its bound is reached, or somebody stops it.
  // It rests as long as each step took, so that it takes half of the time at most.
  const FULL = 50;
  const far = document.getElementById("far");
  const rest = (ms) => new Promise((done) => { setTimeout(done, ms); });
  let going = null;
  const isFull = () => list.querySelectorAll("#found tbody tr").length >= FULL;
  const show = (running) => {
    const [link, stop] = [far.querySelector("a[data-bound]"), far.querySelector("[data-stop]")];
    const focused = far.contains(document.activeElement);
    far.setAttribute("aria-busy", running);
    if (link) { link.hidden = running; if (isFull()) link.textContent = "Next page"; }
    if (stop) stop.hidden = !running;
    if (focused) ([link, stop].find((one) => one && !one.hidden) || far).focus();
  };
  const add = (page) => { // the answer of the next step
    const [old, more] = [list.querySelector("#found"), page.getElementById("found")];
    const rows = more.querySelectorAll("tbody tr");
    if (!old.querySelector("tbody")) old.innerHTML = more.innerHTML;
    else old.querySelector("tbody").append(...rows);
    document.getElementById("states").innerHTML = page.getElementById("states").innerHTML;
    const fresh = page.getElementById("far");
    far.querySelector("[data-told]").textContent = fresh.querySelector("[data-told]").textContent;
    const [link, next] = [far.querySelector("a[data-bound]"), fresh.querySelector("a[data-bound]")];
    if (next) {
      link.href = next.href;
      link.dataset.looked = next.dataset.looked;
      for (const name of ["max", "value"]) far.querySelector("progress")[name] = fresh.querySelector("progress")[name];
    } else {
      far.querySelectorAll("a[data-bound], [data-stop], progress").forEach((one) => one.remove());
    }
    count();
    tick();
    return Boolean(next);
  };
  const goOn = async () => {
    const link = far.querySelector("a[data-bound]");
    const until = Number(link.dataset.looked) + Number(link.dataset.bound);
    const run = going = {};
    show(true);
    try {
      while (going === run && !isFull() && Number(link.dataset.looked) < until) {
        const begun = performance.now();
        const answer = await fetch(link.href, { cache: "no-store", redirect: "manual" });
        if (!answer.ok) break; // its link still says how to go on
        clock(answer);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (going !== run || !add(page)) break;
        await rest(performance.now() - begun);
        while (document.hidden && going === run) await rest(250);
      }
    } catch { /* the dashboard does not answer: its link still says how to go on */ }
    if (going === run) { going = null; show(false); }
  };
  if (far && far.querySelector("a[data-bound]")) {
    far.addEventListener("click", (event) => {
      if (event.target.closest("[data-stop]")) { going = null; show(false); }
      if (event.target.closest("a[data-bound]") && !isFull()) { event.preventDefault(); goOn(); }
    });
    if (!isFull()) goOn();
  }

  // Copies what a button stands for
  document.documentElement.classList.toggle("copies", Boolean(navigator.clipboard));
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy || button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  // Charts: the values under the pointer, or by the arrow keys
  const point = (chart, at) => {
    const [names, lines] = JSON.parse(chart.dataset.chart);
    const last = lines[0].length - 1;
    const i = Math.max(0, Math.min(last, at));
    const when = Number(chart.dataset.from) + i * Number(chart.dataset.step);
    const told = lines.map((values, n) => (names.length > 1 ? `${names[n]} ${values[i]}` : values[i]));
    chart.querySelector("output").textContent = `${utc(when)}: ${told.join(", ")}`;
    const x = (i + 0.5) / (last + 1) * 600;
    for (const side of ["x1", "x2"]) chart.querySelector(".cursor").setAttribute(side, x);
    chart.dataset.at = when;
  };
  const place = (chart, at) => Math.round((at - Number(chart.dataset.from)) / Number(chart.dataset.step));
  const keep = (chart, page) => { // before it is shown, so that no screen reader says it again
    const fresh = page.querySelector(`[data-key="${CSS.escape(chart.dataset.key)}"]`);
    const at = fresh ? place(fresh, Number(chart.dataset.at)) : -1;
    if (at >= 0) point(fresh, at);
  };
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest && event.target.closest("[data-chart]");
    if (!chart) return;
    const box = chart.querySelector("svg").getBoundingClientRect();
    const count = JSON.parse(chart.dataset.chart)[1][0].length;
    point(chart, Math.floor((event.clientX - box.left) / box.width * count));
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const chart = document.activeElement && document.activeElement.closest("[data-chart]");
    if (!step || !chart) return;
    event.preventDefault();
    point(chart, chart.dataset.at ? place(chart, Number(chart.dataset.at)) + step : 1e9);
  });

  // Keys
  let prefix = false;
  const goes = () => Object.fromEntries([...document.querySelectorAll("a[data-go]")].map((a) => [a.dataset.go, a]));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift") return;
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    const help = document.getElementById("keys");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    const rows = [...document.querySelectorAll("[data-row]")];
    const at = rows.findIndex((row) => row.closest("tr").contains(document.activeElement));
    if (prefix) {
      prefix = false;
      const link = goes()[event.key];
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === "g") {
      prefix = true;
      setTimeout(() => { prefix = false; }, 1500);
    } else if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (event.key === "?") {
      help.open ? help.close() : help.showModal();
    } else if (event.key === "j" || event.key === "k") {
      const next = rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : -1)))];
      if (next) next.focus();
    } else if (event.key === "x" && at >= 0) {
      const box = rows[at].closest("tr").querySelector("input[name=ids]");
      if (box) box.click();
    }
  });

  document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
  ahead = Number(document.body.dataset.now) ? Number(document.body.dataset.now) - Date.now() : 0;
  if (document.body.dataset.failed) { since = new Date(); }
  tick();
  setInterval(() => { if (!document.hidden) tick(); }, 250);
  setTimeout(look, every);
})();
