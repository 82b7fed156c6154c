// A finger on a figure: a swipe scrolls the page, a pinch enlarges it, and a tap is a click.
//
// Plotly would zoom into the figure instead, so touches never reach it. After a tap the browser sends the events of a mouse, which do.
// In three dimensions, a sideways swipe rotates the figure.

const OWN = ".slider-group, .slider-container, .updatemenu-container, .rangeslider-container"; // parts that a finger moves
const coarse = matchMedia("(pointer: coarse)");

export const byFinger = () => coarse.matches;
export const onPointerChange = then => coarse.addEventListener("change", then);

let start = null; // of the finger that is down: { x, y, turns: null until it has moved }

function turning(event) {
  const [{ clientX: x, clientY: y }] = event.touches;
  if (event.touches.length > 1) start = null;
  else if (event.type === "touchstart") start = { x, y, turns: null };
  else if (start) start.turns ??= Math.abs(x - start.x) > Math.abs(y - start.y);
  return start !== null && start.turns !== false;
}

function guard(event) {
  const inSpace = event.target.closest(".gl-container"), own = event.target.closest(OWN);
  if (own || (inSpace && turning(event))) return;
  event.stopPropagation();
}

// Called once for each place of a figure.
export function touchable(place) {
  for (const type of ["touchstart", "touchmove"]) place.addEventListener(type, guard, { capture: true, passive: true });
}
