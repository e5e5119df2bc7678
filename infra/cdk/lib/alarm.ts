import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { AlarmProps } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

type Defaulted = 'evaluationPeriods' | 'comparisonOperator' | 'treatMissingData';

/** What an alarm says that is its own. */
export type OwnAlarmProps = Omit<AlarmProps, Defaulted> & Partial<Pick<AlarmProps, Defaulted>>
  & { readonly alarmName: string; readonly alarmDescription: string };

/** An alarm that tells the topic when it begins and when it is over. */
export function alarm(
  scope: Construct, id: string, topic: ITopic | undefined, props: OwnAlarmProps,
): Alarm {
  const made = new Alarm(scope, id, {
    evaluationPeriods: 1,
    comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    treatMissingData: TreatMissingData.NOT_BREACHING,
    actionsEnabled: true,
    ...props,
  });
  if (topic !== undefined) {
    made.addAlarmAction(new SnsAction(topic));
    made.addOkAction(new SnsAction(topic));
  }
  return made;
}

/** Which queue's age alarms, and from when. */
export interface AgeAlarmProps {
  readonly name: string;
  readonly description: string;
  readonly queue: Queue;
  readonly seconds: number;
  readonly topic?: ITopic;
}

/** The alarm on a queue's oldest message, which SQS deletes at 14 days. */
export function ageAlarm(scope: Construct, id: string, props: AgeAlarmProps): Alarm {
  return alarm(scope, id, props.topic, {
    alarmName: props.name,
    alarmDescription: props.description,
    metric: props.queue.metricApproximateAgeOfOldestMessage({
      statistic: 'Maximum', period: Duration.minutes(5),
    }),
    threshold: props.seconds,
  });
}

/** What to do about an old message in a queue, and when nobody takes from that queue. */
export function agedMail(queue: string, unused = ''): string {
  return `A message in ${queue} is ageAlarmSeconds old, and SQS drops it at 14 days. See what holds or `
    + 'slows its sending (alarms held and blocked, the dashboard), or move it to another queue.'
    + unused;
}
