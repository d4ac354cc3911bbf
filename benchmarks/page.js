// What benchmarks/page.py measures in the page. Each function calls `done` with its result.
const LOOK = 10; // milliseconds

function when(is, done, begin = 0) {
  const look = () => (is() ? done(performance.now() - begin) : setTimeout(look, LOOK));
  look();
}

const page = {
  // Call done once the list counts so many runs.
  all(most, done) {
    when(() => Number(document.querySelector('[data-state=""] output')?.textContent) >= most, done);
  },
  sort(column, done) {
    document.querySelector(`[data-sort="${column}"]`).click();
    when(() => document.querySelector(`th[data-name="${column}"][aria-sort]`), done, performance.now());
  },
  charts(done) {
    when(() => document.querySelector("#metrics canvas"), done);
  },
  // Scroll from the top to the end, and call done with the frames and the tasks above 50 ms.
  scroll(milliseconds, done) {
    const begin = performance.now();
    const gaps = [];
    let last = begin;
    const step = () => {
      const now = performance.now();
      gaps.push(now - last);
      last = now;
      scrollTo(0, (document.documentElement.scrollHeight - innerHeight) * Math.min((now - begin) / milliseconds, 1));
      if (now - begin < milliseconds) requestAnimationFrame(step);
      else done({ longest: Math.max(...gaps.slice(1)), frames: gaps.length, tasks: window.long.filter(([at]) => at > begin).map(([, took]) => took) });
    };
    requestAnimationFrame(step);
  },
};
