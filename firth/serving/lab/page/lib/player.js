// Playing, stepping and scrubbing: a position among the stages that moves with the frames of the browser.

const SECONDS = 0.7; // from one stage to the next
const CALM = 0.5; // at least, for those who prefer less motion

export class Player {
  // `moved(at)` draws a frame; `arrived(stage)` is called at each stage, `ended()` after the last.
  constructor(stages, { moved, arrived = () => {}, ended, seconds = SECONDS }) {
    Object.assign(this, { stages, moved, arrived, ended, seconds });
    this.at = 0;
    this.goal = null; // where a single step ends
    this.playing = false;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    if (this.at >= this.stages() - 1) this.at = 0;
    this.run();
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.request);
    this.request = null;
  }

  jump(at) {
    this.at = Math.max(0, Math.min(this.stages() - 1, at));
    this.moved(this.at);
  }

  run() {
    let before = null;
    const frame = now => {
      if (!this.playing) return;
      const seconds = before === null ? 0 : (now - before) / 1000, last = this.stages() - 1, stage = Math.floor(this.at);
      before = now;
      this.at = Math.min(last, this.at + Math.min(0.1, seconds) / (this.calm.matches ? Math.max(CALM, this.seconds) : this.seconds));
      this.moved(this.calm.matches ? Math.floor(this.at) : this.at);
      if (Math.floor(this.at) !== stage) this.arrived(Math.floor(this.at));
      if (this.at >= last) { this.pause(); this.ended(); return; }
      this.request = requestAnimationFrame(frame);
    };
    this.request = requestAnimationFrame(frame);
  }
}
