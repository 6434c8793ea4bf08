import { section } from "../dom.js";
import { byCheck } from "../values.js";
import { MeasuredList } from "./measured.js";

// The checks that say whether the model fits the data.
export const FITS = ["calibration", "movement"];

export function calibration() {
  const [root, body] = section("calibration", "Calibration",
    "Whether events fall where the posterior expects them: of all predictions of 30%, about 30% should come true. If they do not, the model does not fit the data, however well it is computed.");
  const list = new MeasuredList();
  body.append(list.root);
  const update = (state) => {
    const found = byCheck(state).filter((each) => FITS.includes(each.check));
    root.hidden = !found.length;
    list.update(found);
  };
  return { root, update };
}
