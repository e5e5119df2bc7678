<?php
// Symfony Mailer by SMTP: the way of Laravel and Mautic.

require_once 'Symfony/Component/Mailer/autoload.php';

use Symfony\Component\Mailer\Mailer;
use Symfony\Component\Mailer\Transport;
use Symfony\Component\Mime\Address;
use Symfony\Component\Mime\Email;

$mailer = new Mailer(Transport::fromDsn('smtp://' . getenv('SMTP_HOST') . ':' . getenv('SMTP_PORT')));

foreach (json_decode(file_get_contents($argv[1]), true) as $mail) {
    $email = (new Email())
        ->from(new Address($mail['from'], $mail['from_name']))
        ->to(new Address($mail['to'], $mail['to_name']))
        ->subject($mail['subject'])
        ->text($mail['text']);
    if ($mail['cc']) {
        $email->cc($mail['cc']);
    }
    if ($mail['bcc']) {
        $email->bcc($mail['bcc']);
    }
    if ($mail['reply_to']) {
        $email->replyTo($mail['reply_to']);
    }
    if ($mail['html']) {
        $email->html($mail['html']);
    }
    $email->getHeaders()->addTextHeader('X-Order', $mail['order']);
    if ($mail['campaign']) {
        $email->getHeaders()->addTextHeader('X-Tidegate-Campaign', $mail['campaign']);
    }
    if ($mail['attachment']) {
        $email->attachFromPath($mail['attachment'], null, 'application/pdf');
    }
    $mailer->send($email);
}
