/** What the gateway's own routes say: chats, the tree of their responses, models. Only what the app reads is declared. */

export interface ChatObject {
  id: string;
  title: string | null;
  current: string | null;
  running: string | null;
  created_at: number;
  updated_at: number;
  expires_at: number | null;
  pinned: boolean;
}

export interface Page<T> {
  data: T[];
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
}

export interface Annotation {
  type: string;
  url?: string;
  title?: string;
  filename?: string;
  file_id?: string;
  start_index?: number;
  end_index?: number;
}

export interface Content {
  type: string;
  text?: string;
  refusal?: string;
  annotations?: Annotation[];
  image_url?: string;
  file_data?: string;
  filename?: string;
  file_url?: string;
}

export interface Item {
  type: string;
  id?: string;
  status?: string;
  role?: string;
  content?: string | Content[];
  summary?: Content[];
  encrypted_content?: string;
  call_id?: string;
  name?: string;
  server_label?: string;
  arguments?: string;
  input?: string;
  output?: string | Content[];
  [field: string]: unknown;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: { cached_tokens?: number };
  output_tokens_details?: { reasoning_tokens?: number };
}

export interface Failure {
  code?: string | null;
  message: string;
  type?: string;
  param?: string | null;
}

export type Status = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** One response of a chat's tree. */
export interface TreeNode {
  id: string;
  previous_response_id: string | null;
  created_at: number;
  status: Status;
  model: string;
  input: Item[] | string;
  output: Item[];
  usage: Usage | null;
  error: Failure | null;
  incomplete_details: { reason: string } | null;
}

export interface ModelObject {
  id: string;
  owned_by: string;
  [field: string]: unknown;
}

export interface SessionObject {
  key: string | null;
  expires_at: number | null;
  protocol: string;
}

export function inputItems(node: TreeNode): Item[] {
  return typeof node.input === "string"
    ? [{ type: "message", role: "user", content: node.input }]
    : node.input;
}

export function textOf(content: string | Content[] | undefined): string {
  if (typeof content === "string" || content === undefined) return content ?? "";
  return content.map((part) => part.text ?? part.refusal ?? "").join("");
}
