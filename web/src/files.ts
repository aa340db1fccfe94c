/** Files of a message, as data addresses: small enough to be sent with it. */

import { text } from "./text";

export interface Attached {
  type: "file";
  url: string;
  mediaType: string;
  filename: string;
}

const MOST = 20_000_000;
const TEXTS = /\.(txt|md|csv|json|log|py|js|ts|tsx|html|css|xml|yaml|yml|toml|rs|go|java|c|h|cpp|sh|sql)$/i;

export class TooLarge extends Error {}

export async function attached(file: File): Promise<Attached> {
  if (file.size > MOST) throw new TooLarge(text.composer.tooLarge(file.name));
  const mediaType = file.type || (TEXTS.test(file.name) ? "text/plain" : "application/octet-stream");
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([file], { type: mediaType }));
  });
  return { type: "file", url, mediaType, filename: file.name };
}

export function kindOf(mediaType: string): string {
  if (mediaType === "application/pdf") return "PDF";
  return mediaType.split("/")[0] ?? mediaType;
}
