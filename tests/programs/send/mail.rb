# Ruby's mail by SMTP: the library that Rails' Action Mailer delivers by.

require 'json'
require 'mail'

Mail.defaults do
  delivery_method :smtp, address: ENV.fetch('SMTP_HOST'), port: ENV.fetch('SMTP_PORT').to_i, enable_starttls_auto: false
end

JSON.parse(File.read(ARGV[0], encoding: 'UTF-8')).each do |mail|
  letter = Mail.new(charset: 'UTF-8')
  from, to = [%w[from_name from], %w[to_name to]].map { |name, address| "#{mail[name]} <#{mail[address]}>" }
  letter.from = from
  letter.to = to
  letter.cc = mail['cc'] if mail['cc']
  letter.bcc = mail['bcc'] if mail['bcc']
  letter.reply_to = mail['reply_to'] if mail['reply_to']
  letter.subject = mail['subject']
  letter['X-Order'] = mail['order']
  letter['X-Tidegate-Campaign'] = mail['campaign'] if mail['campaign']
  if mail['html']
    letter.text_part = Mail::Part.new { content_type 'text/plain; charset=UTF-8'; body mail['text'] }
    letter.html_part = Mail::Part.new { content_type 'text/html; charset=UTF-8'; body mail['html'] }
  else
    letter.body = mail['text']
  end
  letter.add_file(mail['attachment']) if mail['attachment']
  letter.deliver!
end
