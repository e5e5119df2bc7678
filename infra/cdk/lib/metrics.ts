import { Duration } from 'aws-cdk-lib';
import { Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';

/** A function whose metrics they are. */
export type MetricFunction = 'scheduler' | 'poller';

/** A metric of Tidegate: the sum of one minute, unless the options say otherwise. */
export function tidegateMetric(
  dimensionsMap: Record<string, string>, metricName: string, options?: MetricOptions,
): Metric {
  return new Metric({
    namespace: 'Tidegate', metricName, dimensionsMap, statistic: Stats.SUM, period: Duration.minutes(1), ...options,
  });
}
