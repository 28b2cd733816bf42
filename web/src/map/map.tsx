// The map: moved with the pointer, the wheel or the keys, and drawn at most once in each frame.
import {useEffect, useLayoutEffect, useMemo, useRef} from "preact/hooks";

import type {MapAnswer} from "../api/types";
import {type Colours, colours, draw, type Emphasis, radius} from "./draw";
import {fit, type Point, type View, zoomed} from "./graph";

interface MapProps {
  readonly network: MapAnswer;
  readonly chosen: string | null;
  /** Pairs of switches between which a packet goes, as `pair` names them. */
  readonly way?: ReadonlySet<string>;
  /** When this changes, all of the network is shown again. */
  readonly fitted: string;
  readonly onChoose?: (id: string | null) => void;
}

const NO_WAY: ReadonlySet<string> = new Set();
/** The distance by which a key moves the map, in pixels, and by which a pointer may move in a click. */
const STEP = 60;
const CLICK = 4;

/** The things that are drawn, and what is needed for that. */
class Drawing {
  network: MapAnswer = {switches: [], links: []};
  emphasis: Emphasis = {chosen: null, way: NO_WAY};
  view: View | null = null;
  private frame = 0;
  private colour: Colours | null = null;
  private readonly element: HTMLCanvasElement;

  constructor(element: HTMLCanvasElement) {
    this.element = element;
  }

  /** Draws in the next frame. */
  soon(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => this.now());
    }
  }

  /** Reads the colours again in the next frame. */
  recolour(): void {
    this.colour = null;
    this.soon();
  }

  end(): void {
    cancelAnimationFrame(this.frame);
  }

  size(): {width: number; height: number; ratio: number} {
    return {width: this.element.clientWidth, height: this.element.clientHeight, ratio: devicePixelRatio};
  }

  private now(): void {
    this.frame = 0;
    const size = this.size();
    const context = this.element.getContext("2d");
    if (context === null || size.width === 0) {
      return;
    }
    const [width, height] = [Math.round(size.width * size.ratio), Math.round(size.height * size.ratio)];
    if (this.element.width !== width || this.element.height !== height) {
      this.element.width = width;
      this.element.height = height;
    }
    this.view ??= this.network.switches.length > 0 ? fit(this.network.switches, size.width, size.height) : null;
    this.colour ??= colours(this.element);
    draw(context, size, this.network, this.view ?? fit([], size.width, size.height), this.emphasis, this.colour);
  }

  /** The switch at a point of the screen, or near it. */
  under({x, y}: Point): string | null {
    const {width, height} = this.size();
    const view = this.view;
    if (view === null) {
      return null;
    }
    let [nearest, best] = [null as string | null, radius(view.scale) + 8];
    for (const one of this.network.switches) {
      const [dx, dy] = [(one.x - view.x) * view.scale + width / 2 - x, (one.y - view.y) * view.scale + height / 2 - y];
      const far = Math.hypot(dx, dy);
      if (far < best) {
        [nearest, best] = [one.switch, far];
      }
    }
    return nearest;
  }

  zoom(factor: number, at?: Point): void {
    const {width, height} = this.size();
    if (this.view !== null) {
      this.view = zoomed(this.view, factor, at ?? {x: width / 2, y: height / 2}, width, height);
      this.soon();
    }
  }

  move(dx: number, dy: number): void {
    if (this.view !== null) {
      this.view = {...this.view, x: this.view.x - dx / this.view.scale, y: this.view.y - dy / this.view.scale};
      this.soon();
    }
  }

  all(): void {
    this.view = null;
    this.soon();
  }
}

/** Follows pointers on the canvas: one moves the map or chooses a switch, two zoom. */
function followPointers(canvas: HTMLCanvasElement, own: Drawing, onChoose: (id: string | null) => void): () => void {
  const down = new Map<number, Point>();
  let moved = 0;
  const point = (event: PointerEvent | WheelEvent): Point => ({x: event.offsetX, y: event.offsetY});
  const press = (event: PointerEvent) => {
    down.set(event.pointerId, point(event));
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  };
  const drag = (event: PointerEvent) => {
    const before = down.get(event.pointerId);
    const now = point(event);
    if (before === undefined) {
      canvas.style.cursor = own.under(now) === null ? "grab" : "pointer";
      return;
    }
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const far = (a: Point) => Math.max(1, Math.hypot(a.x - other.x, a.y - other.y));
      own.zoom(far(now) / far(before), other);
    } else {
      own.move(now.x - before.x, now.y - before.y);
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    down.set(event.pointerId, now);
  };
  const release = (event: PointerEvent) => {
    if (down.delete(event.pointerId) && down.size === 0 && moved <= CLICK && event.type === "pointerup") {
      onChoose(own.under(point(event)));
    }
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    own.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002)), point(event));
  };
  canvas.addEventListener("pointerdown", press);
  canvas.addEventListener("pointermove", drag);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", wheel, {passive: false});
  return () => {
    canvas.removeEventListener("pointerdown", press);
    canvas.removeEventListener("pointermove", drag);
    canvas.removeEventListener("pointerup", release);
    canvas.removeEventListener("pointercancel", release);
    canvas.removeEventListener("wheel", wheel);
  };
}

/** Shows a network. */
export function NetworkMap({network, chosen, way = NO_WAY, fitted, onChoose}: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;

  useLayoutEffect(() => {
    const element = canvas.current;
    if (element === null) {
      return;
    }
    const own = new Drawing(element);
    drawing.current = own;
    const observer = new ResizeObserver(() => own.recolour());
    observer.observe(element);
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => own.recolour();
    theme.addEventListener("change", recolour);
    const unfollow = followPointers(element, own, (id) => choose.current?.(id));
    return () => {
      unfollow();
      theme.removeEventListener("change", recolour);
      observer.disconnect();
      own.end();
    };
  }, []);
  useEffect(() => drawing.current?.all(), [fitted]);
  useLayoutEffect(() => {
    const own = drawing.current;
    if (own !== null) {
      own.network = network;
      own.emphasis = {chosen, way};
      own.soon();
    }
  }, [network, chosen, way]);

  const onKeyDown = (event: KeyboardEvent) => {
    const own = drawing.current;
    const does: Record<string, () => void> = {
      ArrowLeft: () => own?.move(STEP, 0),
      ArrowRight: () => own?.move(-STEP, 0),
      ArrowUp: () => own?.move(0, STEP),
      ArrowDown: () => own?.move(0, -STEP),
      "+": () => own?.zoom(1.25),
      "=": () => own?.zoom(1.25),
      "-": () => own?.zoom(0.8),
      "0": () => own?.all(),
      Escape: () => onChoose?.(null),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : does[event.key];
    if (action !== undefined) {
      event.preventDefault();
      action();
    }
  };
  const label = useMemo(() => {
    const [gone, down] = [network.switches.filter((one) => !one.connected).length, network.links.filter(({up}) => !up).length];
    return `Map: ${network.switches.length} switches, ${gone} of them without a connection, and ${network.links.length} links, `
      + `${down} of them down. ${way.size > 0 ? `The packet's way is marked: links ${way.size}. ` : ""}`
      + "The tables have the same. Arrows move it, plus and minus zoom, 0 shows all.";
  }, [network, way]);
  return (
    <div class="map">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={label} onKeyDown={onKeyDown} />
      <div class="map-buttons">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => drawing.current?.zoom(1.4)}>+</button>
        <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => drawing.current?.zoom(1 / 1.4)}>−</button>
        <button type="button" aria-label="Show all" title="Show all (0)" onClick={() => drawing.current?.all()}>⤢</button>
      </div>
    </div>
  );
}
