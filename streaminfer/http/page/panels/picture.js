import { section } from "../dom.js";
import { byCheck } from "../values.js";
import { MeasuredList } from "./measured.js";

export function picture() {
  const [root, body] = section("picture", "Where the error comes from",
    "How the error of an estimate falls with computing: what the start still costs (transient bias), what chance costs (Monte Carlo error), and what no further computing removes (asymptotic bias).");
  const list = new MeasuredList();
  body.append(list.root);
  const update = (state) => {
    const found = byCheck(state).filter((each) => each.check === "error_picture");
    root.hidden = !found.length;
    list.update(found);
  };
  return { root, update };
}
