// Points that leave a trail: lines to where they were in the steps before, fainter the longer ago.

const LINES = 8, EACH = 3; // lines of the trail, and steps in each of them

const span = (first, last) => Array.from({ length: last - first + 1 }, (_, n) => first + n);

export class Trails {
  // Takes the frames of a plot, one for each layer that is drawn, and adds the lines of the trail to the plot.
  constructor(plot) {
    this.plot = plot;
    this.frames = plot.frames.map(({ name, data: [{ x, y }] }) => ({ layer: Number(name), x, y }));
    delete plot.frames;
    delete plot.layout.sliders; // the room has its own slider, which is part of the address
    plot.layout.showlegend = false;
    const [dots, ...still] = plot.data, { color } = dots.marker;
    const faded = Array.from({ length: LINES }, (_, age) => ({
      type: "scatter", mode: "lines", hoverinfo: "skip", name: `trail ${age + 1}`, line: { color, width: 2 }, opacity: 0.7 * (1 - age / LINES), x: [], y: [],
    }));
    plot.data = [dots, ...faded, ...still];
  }

  // Puts the points, and their trail if it is shown, where they are at the n-th frame.
  at(n, shown) {
    const ways = axis => this.plot.data.slice(1, 1 + LINES).map((_, age) => {
      const last = n - age * EACH, first = Math.max(0, last - EACH);
      if (!shown || last <= 0) return [];
      return this.frames[n][axis].flatMap((_, token) => [...span(first, last).map(frame => this.frames[frame][axis][token]), null]);
    });
    const moved = { x: [this.frames[n].x, ...ways("x")], y: [this.frames[n].y, ...ways("y")] };
    this.plot.data = this.plot.data.map((trace, k) => (k in moved.x ? { ...trace, x: moved.x[k], y: moved.y[k] } : trace)); // for another theme, which draws them again
    return moved;
  }
}
