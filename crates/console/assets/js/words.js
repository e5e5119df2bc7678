// What the stack sends, in words. The server's words replace these before the page is built.

/** An `s` makes several of `message` and `unit`; `messages` are any number. */
export const say = { message: 'mail', messages: 'mail', unit: 'recipient', service: 'SES', address: 'address', limit: 'daily quota' };
