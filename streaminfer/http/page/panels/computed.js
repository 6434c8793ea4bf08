import { el, section } from "../dom.js";
import { byCheck } from "../values.js";
import { FITS } from "./calibration.js";
import { MeasuredList } from "./measured.js";

const ORDER = ["coverage", "stein", "draws", "combined", "audit", "starts", "evidence"];

export function computed() {
  const [root, body] = section("computed", "Is it computed right?",
    "Measured in posterior standard deviations against the exact density of the same events: what intervals really hold, the Stein distance, how many independent draws there are, and bounds on the evidence.");
  const list = new MeasuredList();
  const nothing = el("p", {}, "Nothing was measured yet. The monitor measures a posterior some seconds after it changes, within its share of one core.");
  body.append(nothing, list.root);
  const rank = (each) => (ORDER.indexOf(each.check) + 1 || ORDER.length + 1);
  const update = (state) => {
    const found = byCheck(state).filter((each) => !FITS.includes(each.check));
    nothing.hidden = found.length > 0;
    list.update(found.sort((a, b) => rank(a) - rank(b)));
  };
  return { root, update };
}
