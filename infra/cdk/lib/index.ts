export { CampaignQueue } from './campaigns.js';
export type { CampaignQueueProps } from './campaigns.js';
export type { MetricFunction } from './metrics.js';
export type { Campaign, CampaignList, SharedBucket, TidegateCode, TidegateProps } from './props.js';
export { Tidegate } from './tidegate.js';
export { InvalidProp } from './validate.js';
