<?php
// PHPMailer, set up as WordPress does in wp_mail() and as a hook on phpmailer_init does.

use PHPMailer\PHPMailer\PHPMailer;

foreach (['Exception', 'PHPMailer', 'SMTP'] as $class) {
    require_once getenv('PHPMAILER') . "/$class.php";
}

$mailer = new PHPMailer(true);
$mailer->isSMTP();
$mailer->Host = getenv('SMTP_HOST');
$mailer->Port = (int) getenv('SMTP_PORT');
$mailer->SMTPAuth = false;
$mailer->SMTPAutoTLS = false;
$mailer->SMTPKeepAlive = true;
$mailer->CharSet = 'UTF-8';

foreach (json_decode(file_get_contents($argv[1]), true) as $mail) {
    $mailer->clearAllRecipients();
    $mailer->clearAttachments();
    $mailer->clearCustomHeaders();
    $mailer->clearReplyTos();
    $mailer->setFrom($mail['from'], $mail['from_name'], false);
    $mailer->addAddress($mail['to'], $mail['to_name']);
    if ($mail['cc']) {
        $mailer->addCC($mail['cc']);
    }
    if ($mail['bcc']) {
        $mailer->addBCC($mail['bcc']);
    }
    if ($mail['reply_to']) {
        $mailer->addReplyTo($mail['reply_to']);
    }
    $mailer->Subject = $mail['subject'];
    $mailer->isHTML($mail['html'] !== null);
    $mailer->Body = $mail['html'] ?? $mail['text'];
    $mailer->AltBody = $mail['html'] === null ? '' : $mail['text'];
    $mailer->addCustomHeader('X-Order', $mail['order']);
    if ($mail['campaign']) {
        $mailer->addCustomHeader('X-Tidegate-Campaign', $mail['campaign']);
    }
    if ($mail['attachment']) {
        $mailer->addAttachment($mail['attachment'], '', PHPMailer::ENCODING_BASE64, 'application/pdf');
    }
    $mailer->send();
}
$mailer->smtpClose();
