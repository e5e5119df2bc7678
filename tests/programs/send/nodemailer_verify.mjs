// nodemailer: asks whether the server is there, by SMTP or by SES.

import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import nodemailer from 'nodemailer';

const transport = process.argv[2] === 'smtp'
  ? { host: process.env.SMTP_HOST, port: Number(process.env.SMTP_PORT) }
  : { SES: { sesClient: new SESv2Client(), SendEmailCommand } };
console.log(await nodemailer.createTransport(transport).verify());
