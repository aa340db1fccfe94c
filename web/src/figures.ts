/** Numbers as people read them. */

export function seconds(milliseconds: number): string {
  const whole = milliseconds / 1000;
  return whole < 10 ? `${whole.toFixed(2)} s` : `${Math.round(whole)} s`;
}

export function short(tokens: number): string {
  if (tokens < 1000) return String(tokens);
  if (tokens < 1_000_000) return `${Number((tokens / 1000).toFixed(tokens < 10_000 ? 1 : 0))}k`;
  return `${Number((tokens / 1_000_000).toFixed(1))}M`;
}

export function money(amount: number, currency: string): string {
  const digits = amount === 0 || amount >= 0.01 ? 2 : 4;
  return amount.toLocaleString(undefined, {
    style: "currency",
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: amount < 0.0001 && amount > 0 ? 6 : digits,
  });
}
