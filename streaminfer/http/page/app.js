// The page: one section for each question, filled again when the monitor says that something has changed.

import { ask, base, now, perhaps, Refused } from "./api.js";
import { el, fill } from "./dom.js";
import { ago, plural } from "./format.js";
import { calibration } from "./panels/calibration.js";
import { computed } from "./panels/computed.js";
import { flow } from "./panels/flow.js";
import { intervals } from "./panels/intervals.js";
import { keys } from "./panels/keys.js";
import { letters } from "./panels/letters.js";
import { parameters } from "./panels/parameters.js";
import { picture } from "./panels/picture.js";
import { score } from "./panels/score.js";
import { verdict } from "./panels/verdict.js";

const PANELS = [verdict, parameters, intervals, score, calibration, computed, flow, letters, keys, picture];
const LOST_AFTER = 15000;
const AGAIN = 250;
const BEATS = 5; // seconds: so often processes say how far they are

const state = { name: null, about: null, document: null, history: null, verdict: null, metrics: [], services: [], letters: null, open: new Set() };
const LOADS = {
  posterior: async () => {
    const listed = (await ask("v1/posteriors")).posteriors.find((each) => each.name === state.name);
    state.about = listed ?? state.about;
    if (listed && listed.version === null) return; // not yet: what a monitor that begins anew has shown before stays
    state.document = await perhaps(base(state.name));
    state.history = await perhaps(`${base(state.name)}/history`);
  },
  verdict: async () => { state.verdict = await perhaps(`${base(state.name)}/verdict`); },
  metrics: async () => {
    const since = state.metrics.length ? state.metrics[state.metrics.length - 1].id : 0;
    const found = await perhaps(`${base(state.name)}/metrics?limit=1000&since=${since}`);
    const fresh = (found?.measurements ?? []).filter((each) => each.id > since && each.check !== "history");
    state.metrics = [...state.metrics, ...fresh].slice(-2000);
  },
  services: async () => { state.services = (await perhaps(`${base(state.name)}/services`))?.services ?? []; },
  "dead-letters": async () => { state.letters = await perhaps(`${base(state.name)}/dead-letters?limit=20`); },
};
const ALSO = { posterior: ["verdict"], metrics: ["verdict"], services: ["verdict"], verdict: [], "dead-letters": [] };

let panels = [];
let heard = Date.now();
const due = new Set();
let busy = false;
let seconds = 0;
const timers = [];

function show() {
  const counted = state.document ? plural(state.document.n_events, "event") : "no posterior yet";
  document.title = `${state.name}: streaminfer`;
  fill(document.getElementById("title"), state.name);
  const { about } = state;
  const said = [`${about.model} by ${about.method}`, state.document?.exactness, counted, state.document ? `version ${state.document.version}` : about.progress];
  fill(document.getElementById("about"), said.filter(Boolean).join(" · "));
  for (const panel of panels) panel.update(state);
}

async function refresh() {
  if (busy || !due.size) return;
  busy = true;
  const parts = [...due];
  due.clear();
  try {
    await Promise.all(parts.map((part) => LOADS[part]()));
    show();
  } catch (error) {
    parts.forEach((part) => due.add(part));
    failed(error);
  } finally {
    busy = false;
  }
}

const want = (part) => [part, ...(ALSO[part] ?? [])].forEach((each) => due.add(each));

function failed(error) {
  if (error instanceof Refused && error.status === 401) signIn();
  else lost(error.message);
}

function lost(why) {
  const banner = document.getElementById("banner");
  fill(banner, `No contact with the monitor, so this page may be old (${why}). Is it running? The page tries again by itself.`);
  banner.hidden = false;
}

function contact() {
  heard = Date.now();
  document.getElementById("banner").hidden = true;
}

function listen() {
  const source = new EventSource(`${base(state.name)}/events`);
  for (const part of Object.keys(LOADS)) source.addEventListener(part, () => { contact(); want(part); });
  source.onopen = () => { contact(); state.metrics = []; Object.keys(LOADS).forEach(want); };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED && timers.length) setTimeout(listen, 2000); // a browser never asks again if it was refused
    if (Date.now() - heard > 3000) lost("the stream ended");
  };
}

// Says once a second how old the posterior is; who lives is asked at every beat.
function tick() {
  const made = state.document ? Date.parse(state.document.created_at) : null;
  fill(document.getElementById("freshness"), made === null ? "no update yet" : `last update ${ago(now() - made)}`);
  if (seconds++ % BEATS === 0) due.add("services");
  if (Date.now() - heard > LOST_AFTER) perhaps("v1/posteriors").then(contact, failed);
}

function signIn() {
  timers.splice(0).forEach(clearInterval);
  fill(document.getElementById("main"), el("section", { "aria-labelledby": "sign-in" },
    el("h2", { id: "sign-in" }, "Sign in"),
    el("p", { class: "why" }, "This monitor needs the token that is set as STREAMINFER_HTTP_TOKEN where it runs."),
    el("form", { method: "post", action: "login" },
      el("label", {}, "Token ", el("input", { type: "password", name: "token", required: true, autocomplete: "current-password" })),
      el("button", { type: "submit" }, "Sign in"))));
}

async function start() {
  let found;
  try { found = (await ask("v1/posteriors")).posteriors; } catch (error) {
    failed(error);
    return error.status === 401 ? null : setTimeout(start, 2000);
  }
  const wanted = new URLSearchParams(location.search).get("posterior");
  state.about = found.find((each) => each.name === wanted) ?? found[0];
  state.name = state.about.name;
  panels = PANELS.map((make) => make(state));
  fill(document.getElementById("main"), chooser(found), ...panels.map((panel) => panel.root));
  Object.keys(LOADS).forEach(want);
  await refresh();
  tick();
  listen();
  timers.push(setInterval(refresh, AGAIN), setInterval(tick, 1000));
}

function chooser(found) {
  if (found.length < 2) return null;
  const links = found.map((each) => (each.name === state.name ? el("strong", {}, each.name) : el("a", { href: `?posterior=${encodeURIComponent(each.name)}` }, each.name)));
  return el("nav", { "aria-label": "Posteriors" }, ...links.flatMap((link) => [link, " "]));
}

start();
