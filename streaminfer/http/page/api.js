// Asks the monitor. An answer that is not there yet is null; other failures are thrown with the monitor's own words.

export class Refused extends Error {
  constructor(status, problem) {
    super([problem.detail || problem.title || `status ${status}`, problem.remedy].filter(Boolean).join("; "));
    this.status = status;
    this.problem = problem;
  }
}

// How far the monitor's clock is ahead of this one, as its answers tell to the second.
let ahead = 0;
const NOTABLE = 2000;
export const now = () => Date.now() + ahead;

export async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  const difference = Date.parse(answer.headers.get("Date")) - Date.now();
  ahead = Math.abs(difference) > NOTABLE ? difference : 0;
  if (answer.ok) return answer.json();
  let problem = {};
  try { problem = await answer.json(); } catch { /* a proxy may answer in its own words */ }
  throw new Refused(answer.status, problem);
}

// What cannot be answered yet (503) or does not apply (404) is null.
export async function perhaps(path) {
  try { return await ask(path); } catch (error) {
    if (error instanceof Refused && (error.status === 404 || error.status === 503)) return null;
    throw error;
  }
}

export const base = (name) => `v1/posteriors/${encodeURIComponent(name)}`;
