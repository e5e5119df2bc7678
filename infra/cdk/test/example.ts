import { Stack } from 'aws-cdk-lib';
import type { StackProps } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { CampaignQueue, Tidegate } from 'tidegate-cdk';

export class MailStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps) {
    super(scope, id, props);
    const mail = new Tidegate(this, 'Mail', {
      campaigns: [{ name: 'news', weight: 90 }, { name: 'receipts', weight: 10 }],
      campaignList: 'tags', // so that CampaignQueue, here or in any stack, is enough for one more
      allowedSenders: ['*@example.org'],
      alarmEmail: 'ops@example.org',
    });

    const shop = new Role(this, 'Shop', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
    mail.grantSend(shop, 'receipts'); // or all campaigns: mail.grantSend(shop)

    mail.metric('poller', 'DeadLettered').createAlarm(this, 'Many', { threshold: 100, evaluationPeriods: 1 });

    new CampaignQueue(this, 'Birthdays', {
      tidegate: mail.name,
      campaign: { name: 'birthdays', weight: 5 },
      alarmTopic: mail.alarmTopic,
    });
  }
}
