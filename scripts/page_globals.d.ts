// What the classic scripts of this page define.
declare const htmx: {
  process(element: Element, force?: boolean): void;
  ajax(verb: string, path: string, context: {target: string, swap: string}): Promise<void>;
  registerExtension(name: string, extension: object): void;
};

// Events of htmx carry a detail.
interface DocumentEventMap {
  'htmx:after:swap': CustomEvent;
  'htmx:ws:after:message:incoming': CustomEvent;
  'htmx:ws:close': CustomEvent;
  'htmx:ws:error': CustomEvent;
}
