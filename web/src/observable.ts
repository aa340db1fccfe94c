/** A value that components can watch. */

import { useSyncExternalStore } from "react";

export class Observable<T> {
  private readonly watchers = new Set<() => void>();

  constructor(private held: T) {}

  get value(): T {
    return this.held;
  }

  set(value: T): void {
    this.held = value;
    for (const watcher of this.watchers) watcher();
  }

  change(part: Partial<T>): void {
    this.set({ ...this.held, ...part });
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };
}

export function useObservable<T>(observable: Observable<T>): T {
  return useSyncExternalStore(observable.subscribe, () => observable.value);
}
