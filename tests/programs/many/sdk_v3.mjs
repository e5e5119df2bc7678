// The AWS SDK for JavaScript, version 3, as a program that sends a campaign: calls at the same time, and the SDK's own retries.

import { readFileSync } from 'node:fs';

import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';

import { counted } from './at_once.mjs';

const client = new SESv2Client();
const counts = await counted(JSON.parse(readFileSync(process.argv[2], 'utf8')), Number(process.argv[3]), (mail) => client.send(
  new SendEmailCommand({
    FromEmailAddress: mail.from,
    Destination: { ToAddresses: [mail.to] },
    Content: { Simple: { Subject: { Data: mail.subject }, Body: { Text: { Data: mail.text } } } },
    EmailTags: [{ Name: 'campaign', Value: mail.campaign }],
  }),
));
console.log(JSON.stringify(counts));
