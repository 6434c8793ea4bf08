import { base, perhaps, Refused } from "../api.js";
import { el, fill, refresh, section, table } from "../dom.js";
import { number } from "../format.js";

const PAGE = 50;

export function keys(state) {
  const [root, body] = section("keys", "Keys",
    "There is one posterior for each key. Type a key to see its posterior, or go through the list in the order of the keys.");
  const wanted = el("input", { type: "search", id: "key", autocomplete: "off" });
  const one = el("div", { "aria-live": "polite" });
  const list = el("div");
  let after = "";
  const next = el("button", { type: "button", onclick: () => load(after) }, "Next keys");
  const first = el("button", { type: "button", onclick: () => load("") }, "First keys");

  async function look(key) {
    if (!key) return refresh(one);
    try {
      const found = await perhaps(`${base(state.name)}/keys/${encodeURIComponent(key)}`);
      if (!found) return refresh(one, el("p", {}, `No event has the key ${key}, or the keys are still being read.`));
      const shown = (x) => [x].flat(9).map((each) => number(each)).join(", ");
      const rows = Object.entries(found.parameters).map(([name, each]) => [name, shown(each.mean), shown(each.sd)]);
      return refresh(one, table(["parameter", "mean", "sd"], rows, { caption: `${key}: ${number(found.n_events)} events`, numbers: [1, 2] }));
    } catch (error) {
      if (error instanceof Refused) return refresh(one, el("p", {}, error.message));
      throw error;
    }
  }

  async function load(from) {
    const found = await perhaps(`${base(state.name)}/keys?limit=${PAGE}${from ? `&after=${encodeURIComponent(from)}` : ""}`);
    if (!found) return fill(list, el("p", {}, "The keys are still being read."));
    const rows = found.keys.map((each) => [
      el("button", { type: "button", onclick: () => { wanted.value = each.key; look(each.key); } }, each.key), number(each.n_events), number(each.version)]);
    after = found.next ?? "";
    next.disabled = found.next === null;
    return fill(list, table(["key", "events", "version"], rows, { caption: `${rows.length} keys`, numbers: [1, 2] }));
  }

  wanted.addEventListener("change", () => look(wanted.value));
  body.append(el("label", { for: "key" }, "Key "), wanted, one, list, first, " ", next);
  root.hidden = !state.about.keyed;
  let seen = null;
  const update = (now) => {
    if (root.hidden || !now.document || seen === now.document.version) return;
    if (seen === null) load("");
    seen = now.document.version;
    if (wanted.value) look(wanted.value);
  };
  return { root, update };
}
