// The AWS SDK for JavaScript, version 3.

import { readFileSync } from 'node:fs';
import path from 'node:path';

import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';

const client = new SESv2Client();
const named = (name, address) => `=?UTF-8?B?${Buffer.from(name).toString('base64')}?= <${address}>`;
const list = (address) => (address ? [address] : []);

for (const mail of JSON.parse(readFileSync(process.argv[2], 'utf8'))) {
  await client.send(new SendEmailCommand({
    FromEmailAddress: named(mail.from_name, mail.from),
    Destination: { ToAddresses: [named(mail.to_name, mail.to)], CcAddresses: list(mail.cc), BccAddresses: list(mail.bcc) },
    ReplyToAddresses: list(mail.reply_to),
    Content: {
      Simple: {
        Subject: { Data: mail.subject },
        Body: { Text: { Data: mail.text }, ...(mail.html && { Html: { Data: mail.html } }) },
        Headers: [{ Name: 'X-Order', Value: mail.order }],
        ...(mail.attachment && {
          Attachments: [{
            FileName: path.basename(mail.attachment), RawContent: readFileSync(mail.attachment),
            ContentType: 'application/pdf', ContentDisposition: 'ATTACHMENT',
          }],
        }),
      },
    },
    EmailTags: mail.campaign ? [{ Name: 'campaign', Value: mail.campaign }] : [],
  }));
}
