/** `<weir-chart>`: decisions per second over time. Its colors are those of its legend, so that a change of theme is a drawing. */
// @ts-expect-error: its types lie beside another file of it.
import Plot from '../node_modules/uplot/dist/uPlot.esm.js';

/** @type {typeof import('uplot')} */
const uPlot = Plot;

export const series = [
  { name: 'allowed', label: 'Passed' },
  { name: 'over', label: 'Limited' },
  { name: 'near', label: 'Near limit' },
  { name: 'shadowed', label: 'Shadowed' },
];
const heightPx = 190;

class Chart extends HTMLElement {
  /** @type {import('uplot') | undefined} */
  #plot;
  /** @type {number[][]} */
  #points = [];
  #resized = new ResizeObserver(() => this.#plot?.setSize({ width: this.#width(), height: heightPx }));
  #repaint = () => this.#plot?.redraw(false);

  /** Seconds since 1970, then a value for each series. @param {number[][]} points */
  set points(points) {
    if (points === this.#points) return;
    this.#points = points;
    this.#plot?.setData(this.#columns());
  }

  connectedCallback() {
    const color = (/** @type {string} */ name) =>
      getComputedStyle(document.querySelector(`.swatch.${name}`) ?? this).color;
    const faint = () => getComputedStyle(this).getPropertyValue('color');
    const axis = {
      stroke: faint,
      grid: { stroke: () => color('grid'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    this.#plot = new uPlot(
      {
        width: this.#width(),
        height: heightPx,
        legend: { show: false },
        cursor: { y: false },
        scales: {
          x: { range: () => this.#span() },
          y: { range: (_plot, _least, last) => [0, Math.max(1, last * 1.1)] },
        },
        axes: [
          {
            ...axis,
            size: 26,
            values: [
              [3600, '{HH}:{mm}', null, null, null, null, null, null, 1],
              [60, '{HH}:{mm}', null, null, null, null, null, null, 1],
              [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
            ],
          },
          { ...axis, size: 48 },
        ],
        series: [
          {},
          ...series.map(({ name, label }) => ({
            label,
            stroke: () => color(name),
            width: name === 'over' ? 2 : 1.5,
            // A single one makes no line.
            points: {
              show: (/** @type {import('uplot')} */ plot) => plot.data[0].length === 1,
              fill: () => color(name),
            },
          })),
        ],
        hooks: {
          setScale: [
            (plot, key) => {
              const { min = 0, max = 0 } = plot.scales[key] ?? {};
              if (key === 'x') this.dataset['seconds'] = `${Number(max) - Number(min)}`;
            },
          ],
          setCursor: [
            (plot) => this.dispatchEvent(new CustomEvent('look', { detail: plot.cursor.idx ?? undefined })),
          ],
        },
      },
      this.#columns(),
      this,
    );
    this.#resized.observe(this);
    window.addEventListener('weir-theme', this.#repaint);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
    window.removeEventListener('weir-theme', this.#repaint);
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  /** A minute at least, also of what has just begun. uPlot's own span of one point is months. @returns {[number, number]} */
  #span() {
    const first = this.#points[0]?.[0] ?? Date.now() / 1_000;
    const last = this.#points.at(-1)?.[0] ?? first;
    return [Math.min(first, last - 60), last];
  }

  #width() {
    return Math.max(200, this.clientWidth);
  }

  /** @returns {import('uplot').AlignedData} */
  #columns() {
    return /** @type {any} */ (
      [0, ...series.keys().map((at) => at + 1)].map((column) =>
        this.#points.map((point) => point[column] ?? 0),
      )
    );
  }
}

customElements.define('weir-chart', Chart);
