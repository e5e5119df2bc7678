// nodemailer by SES, as a program that sends a campaign: mails at the same time, and the SDK's own retries.

import { readFileSync } from 'node:fs';

import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import nodemailer from 'nodemailer';

import { counted } from './at_once.mjs';

const transporter = nodemailer.createTransport({ SES: { sesClient: new SESv2Client(), SendEmailCommand } });
const counts = await counted(JSON.parse(readFileSync(process.argv[2], 'utf8')), Number(process.argv[3]), (mail) => transporter.sendMail({
  from: mail.from, to: mail.to, subject: mail.subject, text: mail.text, headers: { 'X-Tidegate-Campaign': mail.campaign },
}));
console.log(JSON.stringify(counts));
