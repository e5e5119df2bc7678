import { Duration } from 'aws-cdk-lib';
import { Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';

/** Where the functions' metrics stand. */
export const NAMESPACE = 'Tidegate';

/** A function whose metrics they are. */
export type MetricFunction = 'scheduler' | 'poller';

/**
 * The metrics of Tidegate, as methods. Each is a sum (or, for a gauge, a maximum) of one minute
 * unless the options say otherwise.
 */
export abstract class TidegateMetrics extends Construct {
  /** What every physical name begins with: the stack that the metrics are of. */
  abstract readonly name: string;

  /** Any metric of a function, by its name: docs/operations/metrics.md lists them. */
  metric(of: MetricFunction, metricName: string, options?: MetricOptions): Metric {
    return tidegateMetric({ Stack: this.name, Function: of }, metricName, options);
  }

  /** Any metric of a campaign: `Sent`, `Fed`, `Bounced`, `Complained`. Express mail is `express`. */
  metricCampaign(campaign: string, metricName: string, options?: MetricOptions): Metric {
    return tidegateMetric({ Stack: this.name, Campaign: campaign }, metricName, options);
  }

  /** Mails that SES took. */
  metricSent(options?: MetricOptions): Metric {
    return this.metric('poller', 'Sent', options);
  }

  /** Mails of one campaign that SES took. */
  metricCampaignSent(campaign: string, options?: MetricOptions): Metric {
    return this.metricCampaign(campaign, 'Sent', options);
  }

  /** Mails of one campaign that bounced for good. */
  metricBounced(campaign: string, options?: MetricOptions): Metric {
    return this.metricCampaign(campaign, 'Bounced', options);
  }

  /** Complaints about mails of one campaign. */
  metricComplained(campaign: string, options?: MetricOptions): Metric {
    return this.metricCampaign(campaign, 'Complained', options);
  }

  /** Sends that SES refused for the rate. */
  metricRefused(options?: MetricOptions): Metric {
    return this.metric('poller', 'Refused', options);
  }

  /** Sends that failed. */
  metricFailed(options?: MetricOptions): Metric {
    return this.metric('poller', 'Failed', options);
  }

  /** Mails moved to the dead-letter queue. */
  metricDeadLettered(options?: MetricOptions): Metric {
    return this.metric('poller', 'DeadLettered', options);
  }

  /** Slots that passed before their mail was ready. */
  metricSlotsSkipped(options?: MetricOptions): Metric {
    return this.metric('poller', 'SlotsSkipped', options);
  }

  /** Slots that no mail waited for. */
  metricSlotsUnused(options?: MetricOptions): Metric {
    return this.metric('poller', 'SlotsUnused', options);
  }

  /** Windows that a hold on all sending ended. */
  metricHeldWindows(options?: MetricOptions): Metric {
    return this.metric('poller', 'HeldWindows', options);
  }

  /** Windows that the circuit breaker ended. */
  metricBlockedWindows(options?: MetricOptions): Metric {
    return this.metric('poller', 'BlockedWindows', options);
  }

  /** Windows that were not served because the ledger was out of reach. */
  metricLedgerFailed(options?: MetricOptions): Metric {
    return this.metric('poller', 'LedgerFailed', options);
  }

  /** How often the most received message was received (a maximum). */
  metricHighestReceiveCount(options?: MetricOptions): Metric {
    return this.metric('poller', 'HighestReceiveCount', gauge(options));
  }

  /** Recipients per second that a window was given (a maximum). */
  metricRate(options?: MetricOptions): Metric {
    return this.metric('poller', 'Rate', gauge(options));
  }

  /** Calls of SQS, which are most of what Tidegate costs. */
  metricSqsCalls(options?: MetricOptions): Metric {
    return this.metric('poller', 'SqsCalls', options);
  }

  /** Recipients per second that SES allows (a maximum). */
  metricQuota(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'Quota', gauge(options));
  }

  /** Runs of the scheduler that did not learn the quota. */
  metricQuotaUnknown(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'QuotaUnknown', options);
  }

  /** Holds that stand, on all sending and on campaigns (a maximum). */
  metricHolds(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'Holds', gauge(options));
  }

  /** Ticks that no poller was started for. */
  metricTicksFailed(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'TicksFailed', options);
  }

  /** How the stack is loaded: 0 clear, 1 busy, 2 overloaded (a maximum). */
  metricBackPressureLevel(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'BackPressureLevel', gauge(options));
  }

  /** Seconds that the backlog takes at the rate of now (a maximum). */
  metricBacklogSeconds(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'BacklogSeconds', gauge(options));
  }

  /** 1 while the backlog has grown for an hour by more than a tenth of the quota (a maximum). */
  metricBacklogGrows(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'BacklogGrows', gauge(options));
  }

  /** Mean seconds that mails sent for the first time had waited (the maximum of the readings). */
  metricMeanAgeSeconds(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'MeanAgeSeconds', gauge(options));
  }

  /** Mails put aside into the deferral bucket. */
  metricDeferred(options?: MetricOptions): Metric {
    return this.metric('poller', 'Deferred', options);
  }

  /** Mails that could not be put aside, and stayed on their queue. */
  metricDeferralFailed(options?: MetricOptions): Metric {
    return this.metric('poller', 'DeferralFailed', options);
  }

  /** Mails brought back from the deferral bucket. */
  metricBroughtBack(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'BroughtBack', options);
  }

  /** Minutes in which mail could not be brought back. */
  metricDeferralReplayFailed(options?: MetricOptions): Metric {
    return this.metric('scheduler', 'DeferralReplayFailed', options);
  }

  /** Mails moved to the queue of their recipient's domain. */
  metricLimitMoved(options?: MetricOptions): Metric {
    return this.metric('poller', 'LimitMoved', options);
  }

  /** Mails that their domain's limit let wait. */
  metricLimitWaiting(options?: MetricOptions): Metric {
    return this.metric('poller', 'LimitWaiting', options);
  }

  /** Sends that the shared bucket refused, and that wait for another slot. */
  metricBucketRefused(options?: MetricOptions): Metric {
    return this.metric('poller', 'BucketRefused', options);
  }

  /** Takes from the shared bucket that it did not answer. */
  metricBucketLost(options?: MetricOptions): Metric {
    return this.metric('poller', 'BucketLost', options);
  }
}

function tidegateMetric(
  dimensionsMap: Record<string, string>, metricName: string, options?: MetricOptions,
): Metric {
  return new Metric({
    namespace: NAMESPACE,
    metricName,
    dimensionsMap,
    statistic: Stats.SUM,
    period: Duration.minutes(1),
    ...options,
  });
}

function gauge(options?: MetricOptions): MetricOptions {
  return { statistic: Stats.MAXIMUM, ...options };
}
