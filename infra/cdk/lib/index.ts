export { CampaignQueue } from './queues.js';
export type { CampaignQueueProps } from './queues.js';
export { TidegateMetrics } from './metrics.js';
export type { MetricFunction } from './metrics.js';
export type { Campaign, CampaignList, TidegateCode, TidegateProps } from './props.js';
export type { SharedBucket } from './shared.js';
export { TidegateStack } from './stack.js';
export { Tidegate } from './tidegate.js';
export { InvalidProp } from './validate.js';
