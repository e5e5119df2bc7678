export { CampaignQueue, type CampaignQueueProps } from './campaigns.js';
export type { Campaign, CampaignList, SharedBucket, TidegateCode, TidegateProps } from './props.js';
export { Tidegate, type MetricFunction } from './tidegate.js';
export { InvalidProp } from './validate.js';
