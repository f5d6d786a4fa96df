/* Keeps the values of a page current: it sets texts, and draws the charts.  Without it, the page has the same values. */
"use strict";

(function () {
  const plots = new Map();

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axes(unit) {
    const line = { stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return [line, { ...line, size: 70, label: unit, labelSize: 18 }];
  }

  function draw(element, data, series, options) {
    const known = plots.get(element);
    if (known && known.series.length === series.length) {
      known.setData(data);
      return;
    }
    if (known) known.destroy();
    const width = Math.max(240, element.clientWidth);
    const plot = new uPlot(
      { width: width, height: 220, series: series, legend: { show: false }, cursor: { drag: { x: false, y: false } }, ...options },
      data, element);
    plots.set(element, plot);
  }

  function drawRounds(element, chart) {
    const lines = chart.lines || {};
    const kinds = {
      "best fit": { stroke: colour("--fit"), width: 2 },
      "median": { stroke: colour("--fit"), width: 2 },
      "average": { stroke: colour("--quiet"), width: 1 },
      "upper limit": { stroke: colour("--bad"), width: 1, dash: [6, 4] },
      "lower limit": { stroke: colour("--bad"), width: 1, dash: [6, 4] },
    };
    const series = [{ label: "round" }, { label: chart.title, stroke: colour("--mark"), width: 2, points: { show: true, size: 7, fill: colour("--mark") } }];
    const data = [chart.rounds, chart.values];
    for (const name of Object.keys(lines)) {
      series.push({ label: name, points: { show: false }, ...kinds[name] });
      data.push(lines[name]);
    }
    const last = Math.max(5, ...chart.rounds);
    draw(element, data, series, {
      axes: axes(chart.unit).map((axis, index) => index ? axis : { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }),
      scales: { x: { time: false, range: function () { return [0.5, Math.max(last, plots.has(element) ? plots.get(element).data[0].length : 0) + 0.5]; } } },
    });
  }

  function drawLine(element, series) {
    const hours = series.seconds.map((second) => second / 3600);
    draw(element, [hours, series.values],
      [{ label: "hours" }, { label: series.name, stroke: colour("--mark"), width: 1, points: { show: series.values.length < 200, size: 4 } }],
      { axes: axes(series.unit), scales: { x: { time: false } } });
  }

  function setCells(place, cells) {
    for (const name of Object.keys(cells)) {
      for (const element of place.querySelectorAll('[data-cell="' + name + '"]')) {
        if (element.textContent !== cells[name]) element.textContent = cells[name];
        if (element.hasAttribute("data-state")) element.setAttribute("data-state", cells[name].split(",")[0]);
      }
    }
  }

  function setTable(body, rows) {
    rows.forEach(function (row, index) {
      let line = body.rows[index];
      if (!line) {
        line = body.insertRow();
        const head = document.createElement("th");
        head.scope = "row";
        line.appendChild(head);
        for (let column = 1; column < row.length; column += 1) line.insertCell();
      }
      row.forEach(function (text, column) {
        if (line.cells[column].textContent !== text) line.cells[column].textContent = text;
      });
    });
    while (body.rows.length > rows.length) body.deleteRow(-1);
  }

  let seriesAddress = null;
  let seriesWaiting = false;

  async function loadSeries() {
    if (!seriesAddress || seriesWaiting) return;
    seriesWaiting = true;
    try {
      const answer = await fetch(seriesAddress);
      if (answer.ok) {
        const all = await answer.json();
        for (const element of document.querySelectorAll("[data-line]")) {
          const series = all.find((one) => one.name === element.getAttribute("data-line"));
          if (series) drawLine(element, series);
        }
      }
    } finally {
      window.setTimeout(function () { seriesWaiting = false; }, 3000);
    }
  }

  /* Returns whether the page has a place for all values of the row; if not, it must be loaded again. */
  function show(row) {
    const place = document.querySelector('[data-key="' + CSS.escape(row.key) + '"]');
    if (!place) return true;
    setCells(place, row.cells);
    let complete = place.getAttribute("data-version") === null || place.getAttribute("data-version") === row.version;
    for (const name of Object.keys(row.tables || {})) {
      const body = place.querySelector('[data-table="' + name + '"]');
      if (body) setTable(body, row.tables[name]);
      else complete = false;
    }
    for (const name of Object.keys(row.notes || {})) {
      const note = place.querySelector('[data-note="' + name + '"]');
      if (note) note.textContent = row.notes[name];
    }
    (row.charts || []).forEach(function (chart, index) {
      const element = place.querySelector('[data-chart="' + index + '"]');
      if (element) drawRounds(element, chart);
    });
    if (row.updated) loadSeries();
    return complete;
  }

  function isEditing() {
    return ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement && document.activeElement.tagName);
  }

  function connect(address) {
    const connection = document.getElementById("connection");
    const events = new EventSource(address);
    events.onopen = function () { connection.textContent = "Live: changes appear as they are measured."; };
    events.onerror = function () { connection.textContent = "Not connected: the values may be out of date. Trying again."; };
    events.onmessage = function (event) {
      const complete = JSON.parse(event.data).map(show).every(Boolean);
      // At most once a second: the time is that since the page began to load.
      if (!complete && !isEditing()) window.setTimeout(function () { window.location.reload(); }, Math.max(0, 1000 - performance.now()));
    };
  }

  for (const element of document.querySelectorAll("[data-plot]")) drawRounds(element, JSON.parse(element.getAttribute("data-plot")));
  const place = document.querySelector("[data-series]");
  if (place) {
    seriesAddress = place.getAttribute("data-series");
    loadSeries();
  }
  window.addEventListener("resize", function () {
    for (const [element, plot] of plots) plot.setSize({ width: Math.max(240, element.clientWidth), height: 220 });
  });
  const address = document.body.getAttribute("data-events");
  if (address) connect(address);
}());
