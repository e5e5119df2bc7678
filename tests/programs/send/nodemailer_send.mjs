// nodemailer: by SMTP with a pool of connections, and by SES.

import { readFileSync } from 'node:fs';

import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import nodemailer from 'nodemailer';

const [, , file, way] = process.argv;
const transport = way === 'smtp'
  ? { host: process.env.SMTP_HOST, port: Number(process.env.SMTP_PORT), pool: true }
  : { SES: { sesClient: new SESv2Client(), SendEmailCommand } };
const transporter = nodemailer.createTransport(transport);

for (const mail of JSON.parse(readFileSync(file, 'utf8'))) {
  const named = mail.campaign && (way === 'smtp'
    ? { headers: { 'X-Order': mail.order, 'X-Tidegate-Campaign': mail.campaign } }
    : { ses: { EmailTags: [{ Name: 'campaign', Value: mail.campaign }] } });
  await transporter.sendMail({
    from: { name: mail.from_name, address: mail.from },
    to: { name: mail.to_name, address: mail.to },
    cc: mail.cc ?? undefined,
    bcc: mail.bcc ?? undefined,
    replyTo: mail.reply_to ?? undefined,
    subject: mail.subject,
    text: mail.text,
    html: mail.html ?? undefined,
    headers: { 'X-Order': mail.order },
    attachments: mail.attachment ? [{ path: mail.attachment }] : [],
    ...named,
  });
}
transporter.close();
