//! `Monitor` on CloudWatch: the stack's alarms, and the metrics that Lambda and the functions publish.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::builders::MetricStatBuilder;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricAlarm, MetricDataQuery, MetricStat, StateValue,
};
use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::whole;
use tidegate_delivery::ports::{
    FailedInvocations, Monitor, MonitorReport, PastRates, PortError, RingingAlarm,
};

use crate::aws::emf::NAMESPACE;
use crate::aws::error::{port_error, time_limits};

/// The time limit of a call with its retries.
const OPERATION: Duration = Duration::from_secs(10);
/// Failed invocations are counted over this time.
const HOUR: Duration = Duration::from_hours(1);
const LONGEST_MONTH: Duration = Duration::from_hours(31 * 24);
const MINUTE: Duration = Duration::from_mins(1);
/// `GetMetricData` bills each metric that is asked for ($0.01 for 1,000) and answers 100,800 figures at most:
/// those of 52 metrics of two days in steps of five minutes are 30,000.
const MOST_CAMPAIGNS: usize = 50;

/// The figures of a metric by the start of their step, seconds since 1970.
type Figures = BTreeMap<u64, f64>;

/// The alarms and metrics of one stack.
#[derive(Clone, Debug)]
pub struct CloudWatch {
    client: Client,
    stack: String,
    /// The names of scheduler and poller.
    functions: [String; 2],
}

impl CloudWatch {
    /// Those of the stack `stack` with these functions, through `client`, whose time limit is replaced.
    pub fn new(client: &Client, stack: &str, functions: [String; 2]) -> Self {
        let limits = time_limits(OPERATION, OPERATION);
        let config = client.config().to_builder().timeout_config(limits).build();
        Self { client: Client::from_conf(config), stack: stack.to_owned(), functions }
    }

    /// US dollars that the account's text messages have cost in the month (UTC) of `now`; none without a figure. The
    /// [metric] is a sum since the month began, and is published when texts are sent.
    ///
    /// [metric]: https://docs.aws.amazon.com/sms-voice/latest/userguide/monitoring-cloudwatch.html
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn text_spend(&self, now: Timestamp) -> Result<Option<f64>, PortError> {
        let spend = query("AWS/SMSVoice", "TextMessageMonthlySpend", &[], "Maximum");
        let from = now.saturating_sub(LONGEST_MONTH);
        let figures = self.figures(vec![spend], from, now, HOUR).await?;
        let newest = figures.into_iter().flatten().last();
        let of_month =
            newest.filter(|(at, _)| Timestamp::from_millis(at * 1_000).month() == now.month());
        Ok(of_month.map(|(_, dollars)| dollars))
    }

    /// All alarms whose names begin with the stack's.
    async fn alarms(&self) -> Result<Vec<MetricAlarm>, PortError> {
        let prefix = format!("{}-", self.stack);
        let pages = self.client.describe_alarms().alarm_name_prefix(prefix);
        let mut pages = pages.into_paginator().send();
        let mut alarms = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("DescribeAlarms", &self.stack, error))?;
            alarms.extend(page.metric_alarms.unwrap_or_default());
        }
        Ok(alarms)
    }

    /// The figures of each query, in their order.
    async fn figures(
        &self,
        queries: Vec<MetricStatBuilder>,
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<Figures>, PortError> {
        let period = i32::try_from(step.as_secs()).unwrap_or(i32::MAX);
        let request = self.client.get_metric_data().start_time(date(from)).end_time(date(to));
        let mut all = vec![Figures::new(); queries.len()];
        let queries = queries.into_iter().enumerate().map(|(place, query)| {
            let of_metric = MetricDataQuery::builder().id(format!("m{place}"));
            of_metric.metric_stat(query.period(period).build()).build()
        });
        let request = request.set_metric_data_queries(Some(queries.collect()));
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("GetMetricData", &self.stack, error))?;
            for result in page.metric_data_results() {
                let place = result.id().and_then(|id| id.strip_prefix('m')?.parse::<usize>().ok());
                let Some(figures) = place.and_then(|place| all.get_mut(place)) else { continue };
                let starts = result.timestamps().iter();
                let starts = starts.filter_map(|at| u64::try_from(at.secs()).ok());
                figures.extend(starts.zip(result.values().iter().copied()));
            }
        }
        Ok(all)
    }
}

impl Monitor for CloudWatch {
    async fn report(&self, now: Timestamp) -> Result<MonitorReport, PortError> {
        let alarms = self.alarms().await?;
        let dimensions = self.functions.each_ref().map(|name| [("FunctionName", name.as_str())]);
        let queries = dimensions.iter().flat_map(|dimensions| {
            ["Errors", "Throttles"].map(|name| query("AWS/Lambda", name, dimensions, "Sum"))
        });
        let from = now.saturating_sub(HOUR);
        let figures = self.figures(queries.collect(), from, now, MINUTE).await?;
        let failed = self.functions.iter().zip(figures.chunks(2));
        let failed = failed.map(|(function, figures)| FailedInvocations {
            function: function.clone(),
            errors: figures.first().map_or(0, sum),
            throttles: figures.get(1).map_or(0, sum),
        });
        let ringing = alarms.iter().filter_map(ringing).collect();
        Ok(MonitorReport { alarms: alarms.len() as u64, ringing, failed: failed.collect() })
    }

    async fn past(
        &self,
        campaigns: &[String],
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> Result<Vec<PastRates>, PortError> {
        let campaigns = &campaigns[..campaigns.len().min(MOST_CAMPAIGNS)];
        let stack = ("Stack", self.stack.as_str());
        let [poller, scheduler] = ["poller", "scheduler"].map(|name| [("Function", name), stack]);
        let dimensions: Vec<_> =
            campaigns.iter().map(|name| [("Campaign", name.as_str()), stack]).collect();
        let sent = |dimensions| query(NAMESPACE, "Sent", dimensions, "Sum");
        let mut queries = vec![sent(&poller), query(NAMESPACE, "Quota", &scheduler, "Maximum")];
        queries.extend(dimensions.iter().map(|dimensions| sent(dimensions)));
        let mut figures = self.figures(queries, from, to, step).await?.into_iter();
        let (sent, quota) =
            (figures.next().unwrap_or_default(), figures.next().unwrap_or_default());
        let by_campaign: BTreeMap<&String, Figures> = campaigns.iter().zip(figures).collect();
        Ok(rates(&sent, &quota, &by_campaign, to, step))
    }
}

/// The figures of one metric.
fn query(
    namespace: &str,
    name: &str,
    dimensions: &[(&str, &str)],
    statistic: &str,
) -> MetricStatBuilder {
    let dimension =
        |(name, value): &(&str, &str)| Dimension::builder().name(*name).value(*value).build();
    let dimensions = dimensions.iter().map(dimension).collect();
    let metric = Metric::builder().namespace(namespace).metric_name(name);
    let metric = metric.set_dimensions(Some(dimensions)).build();
    MetricStat::builder().metric(metric).stat(statistic)
}

/// The steps from the first in which something was sent until `to`. A missing figure of what was sent is a 0,
/// because zeros are not published; a missing quota is that of the step before.
fn rates(
    sent: &Figures,
    quota: &Figures,
    campaigns: &BTreeMap<&String, Figures>,
    to: Timestamp,
    step: Duration,
) -> Vec<PastRates> {
    let Some(first) = sent.keys().next().copied() else { return Vec::new() };
    let last = (to.as_millis() / 1_000).saturating_sub(step.as_secs());
    let mut known = None;
    let mut steps = Vec::new();
    let mut start = first;
    while start <= last {
        known = quota.get(&start).copied().or(known);
        let rate = |figures: &Figures| Some(figures.get(&start)? / step.as_secs_f64());
        let of_campaign =
            |(name, figures): (&&String, &Figures)| Some((String::clone(name), rate(figures)?));
        steps.push(PastRates {
            until: Timestamp::from_millis((start + step.as_secs()) * 1_000),
            all: rate(sent).unwrap_or(0.0),
            quota: known,
            campaigns: campaigns.iter().filter_map(of_campaign).collect(),
        });
        start += step.as_secs().max(1);
    }
    steps
}

fn ringing(alarm: &MetricAlarm) -> Option<RingingAlarm> {
    if alarm.state_value() != Some(&StateValue::Alarm) {
        return None;
    }
    let since = alarm.state_transitioned_timestamp().or(alarm.state_updated_timestamp());
    let since = since.and_then(|at| u64::try_from(at.to_millis().ok()?).ok());
    Some(RingingAlarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        since: since.map(EpochMillis::new),
        why: alarm.state_reason().unwrap_or_default().to_owned(),
    })
}

fn sum(figures: &Figures) -> u64 {
    whole(figures.values().sum::<f64>().round())
}

fn date(at: Timestamp) -> DateTime {
    DateTime::from_secs(i64::try_from(at.as_millis() / 1_000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_a_figure_sent_nothing_and_the_quota_stays() {
        let figures = |list: &[(u64, f64)]| list.iter().copied().collect::<Figures>();
        let big = "big".to_owned();
        let campaigns = BTreeMap::from([(&big, figures(&[(120, 600.0)]))]);
        let steps = rates(
            &figures(&[(120, 660.0), (240, 60.0)]),
            &figures(&[(120, 14.0)]),
            &campaigns,
            Timestamp::from_millis(330_000),
            Duration::from_mins(1),
        );
        let seen: Vec<_> = steps
            .iter()
            .map(|step| (step.until.as_millis() / 1_000, step.all, step.quota))
            .collect();
        assert_eq!(seen, [(180, 11.0, Some(14.0)), (240, 0.0, Some(14.0)), (300, 1.0, Some(14.0))]);
        assert_eq!(steps[0].campaigns, BTreeMap::from([(big.clone(), 10.0)]));
        assert!(steps[1].campaigns.is_empty());
        let none = Figures::new();
        assert!(
            rates(&none, &none, &campaigns, Timestamp::from_millis(330_000), MINUTE).is_empty()
        );
    }
}
