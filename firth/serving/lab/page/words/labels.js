// The words on a map: each beside its point where it covers no other word, and left out where there is no room for it.
//
// All sizes are in pixels from the upper left corner of the axes. The first words of the file, its most frequent ones, come first.

const POSITIONS = ["top center", "bottom center", "middle right", "middle left", "top right", "top left", "bottom right", "bottom left"];
const DOT = 6, HIT = 13; // diameters of a point, and of one that was searched for
const FEW = 30; // words that are written in three dimensions, where they move with every turn

const pen = document.createElement("canvas").getContext("2d");

export function widthOf(text, { size, family }) {
  pen.font = `${size}px ${family}`;
  return pen.measureText(text).width + 2;
}

export const overlap = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

// Where Plotly writes a text of this size at a position relative to its point.
function boxAt(position, { x, y }, width, size, diameter) {
  const [vertical, horizontal] = position.split(" "), away = diameter / 2 / 0.8 + 1;
  const left = { left: x - away - width, center: x - width / 2, right: x + away }[horizontal];
  const top = { top: y - away - 1.1 * size, middle: y - 0.6 * size, bottom: y + away - 0.1 * size }[vertical];
  return { left, right: left + width, top, bottom: top + 1.2 * size };
}

function pixels(place, trace) {
  const { xaxis, yaxis } = place._fullLayout;
  return trace.x.map((x, n) => ({ x: xaxis.l2p(x), y: yaxis.l2p(trace.y[n]) }));
}

// The position of each word, or null where it is left out.
function positions(place, wanted, diameters) {
  const trace = place.data[0], font = place._fullData[0].textfont, points = pixels(place, trace);
  const { xaxis: { _length: wide }, yaxis: { _length: tall } } = place._fullLayout;
  const inside = box => box.left >= 0 && box.right <= wide && box.top >= 0 && box.bottom <= tall;
  const covers = (box, own) => points.some(({ x, y }, n) => n !== own && x > box.left && x < box.right && y > box.top && y < box.bottom);
  const taken = [];
  return trace.customdata.map((word, n) => {
    if (!wanted[n]) return null;
    const width = widthOf(word, font);
    const free = POSITIONS.map(position => ({ position, box: boxAt(position, points[n], width, font.size, diameters[n]) }))
      .filter(({ box }) => inside(box) && !taken.some(other => overlap(box, other)));
    const best = free.find(({ box }) => !covers(box, n)) ?? free[0];
    if (best) taken.push(best.box);
    return best?.position ?? null;
  });
}

// Writes the words of a map, those with `find` in them larger and alone, and again whenever the map has changed.
export function writeWords(place, find) {
  const part = find.trim().toLowerCase(), { customdata: words, hovertext, z } = place.data[0];
  const hits = words.map(word => part !== "" && word.toLowerCase().includes(part)), some = hits.some(Boolean);
  const diameters = hits.map(hit => (hit ? HIT : DOT));
  const wanted = some ? hits : words.map(() => z === undefined || words.length <= FEW);
  let seen = "", waiting = 0;
  const state = () => JSON.stringify([place.data[0].text, ...["xaxis", "yaxis"].map(name => [place._fullLayout[name]?.range, place._fullLayout[name]?._length])]);

  async function write() {
    if (!place.isConnected || state() === seen) return;
    const at = z === undefined ? positions(place, wanted, diameters) : wanted.map(one => (one ? POSITIONS[0] : null));
    await Plotly.restyle(place, {
      text: [hovertext.map((label, n) => (at[n] ? label : ""))],
      textposition: [at.map(one => one ?? POSITIONS[0])],
      "marker.size": [diameters],
      "marker.color": [hits.map(hit => (hit ? "#D55E00" : "#0072B2"))],
    }, [0]);
    seen = state();
  }

  place.on("plotly_afterplot", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(write); });
  return write();
}
