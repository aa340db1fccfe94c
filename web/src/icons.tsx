/** Line drawings of one weight. The mark is two voices that answer each other. */

import type { ReactNode, SVGProps } from "react";

function Icon({ children, ...rest }: SVGProps<SVGSVGElement> & { children: ReactNode }) {
  return (
    <svg
      viewBox="0 0 20 20"
      width="18"
      height="18"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      {...rest}
    >
      {children}
    </svg>
  );
}

export function Mark({ size = 24 }: { size?: number }) {
  return (
    <svg
      viewBox="0 0 32 32"
      width={size}
      height={size}
      fill="none"
      stroke="var(--accent)"
      strokeWidth="3.4"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M6 11c6-5 10-5 14 0" />
      <path d="M12 21c4 5 8 5 14 0" />
    </svg>
  );
}

const drawn = (path: ReactNode) => () => <Icon>{path}</Icon>;

export const Sidebar = drawn(<path d="M3 4.5h14v11H3zM7.5 4.5v11" />);
export const Panel = drawn(<path d="M3 4.5h14v11H3zM12 4.5v11M14 7.5h1M14 10h1M14 12.5h1" />);
export const Plus = drawn(<path d="M10 4.5v11M4.5 10h11" />);
export const Pencil = drawn(<path d="M4 16l.8-3.2L13.5 4l2.5 2.5-8.8 8.7L4 16z" />);
export const Dots = drawn(<path d="M5 10h.01M10 10h.01M15 10h.01" strokeWidth="2.4" />);
export const Gear = drawn(<path d="M4 6h7M15 6h1M4 14h1M9 14h7M13 4.2v3.6M7 12.2v3.6" />);
export const Up = drawn(<path d="M10 15.5v-11M5.5 9L10 4.5 14.5 9" />);
export const Down = drawn(<path d="M10 4.5v11M5.5 11l4.5 4.5L14.5 11" />);
export const Stop = drawn(<path d="M6 6h8v8H6z" fill="currentColor" />);
export const Clip = drawn(
  <path d="M15.6 9.4l-5.7 5.7a3.6 3.6 0 01-5.1-5.1l6.1-6.1a2.4 2.4 0 013.4 3.4l-5.9 5.9a1.2 1.2 0 01-1.7-1.7l5.2-5.2" />,
);
export const Copy = drawn(<path d="M7.5 7.5h8v8h-8zM12.5 7.5v-3h-8v8h3" />);
export const Check = drawn(<path d="M4.5 10.5l3.5 3.5 7.5-8" />);
export const Again = drawn(<path d="M15.5 10a5.5 5.5 0 11-1.7-4M15.5 3.5V7H12" />);
export const Left = drawn(<path d="M12 5.5L7.5 10l4.5 4.5" />);
export const Right = drawn(<path d="M8 5.5l4.5 4.5L8 14.5" />);
export const Cross = drawn(<path d="M5.5 5.5l9 9M14.5 5.5l-9 9" />);
export const Search = drawn(<path d="M9 14a5 5 0 100-10 5 5 0 000 10zM12.8 12.8L16 16" />);
