import { RemovalPolicy } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { TidegateProps } from './props.js';

type Optional = 'quotaPerSecond' | 'maxInFlight' | 'alarmEmail' | 'code'
  | 'limits' | 'sharedBucket' | 'backPressureBusy' | 'backPressureOverloaded'
  | 'endpointUrl' | 'sqsEndpointUrl' | 'sesEndpointUrl';

/** The props with their defaults filled in. */
export type Settings = Required<Omit<TidegateProps, Optional>> & Pick<TidegateProps, Optional>;

export const DEFAULTS = {
  channel: 'email',
  origins: ['*'],
  allowedCountries: ['*'],
  campaignList: 'environment',
  mode: 'merge',
  expressQueue: false,
  campaignFloor: '0%',
  deferral: false,
  deferralReplay: 'auto',
  maxAttempts: 5,
  unsent: 'timeout',
  idleWindows: 5,
  idleWakeSeconds: 60,
  allowedSenders: ['*'],
  senderIdentityArns: ['*'],
  rateMargin: 0.02,
  tickLeadMs: 400,
  overlapWindows: 10,
  daily: 'full',
  dailyReserve: '1%',
  deduplication: 'off',
  deduplicationDays: 15,
  breakerShare: 0.2,
  breakerSeconds: 60,
  breakerOutcomes: 20,
  breakerStopSeconds: 30,
  breakerProbeSeconds: 15,
  feedback: 'hold',
  bounceShare: 0.05,
  complaintShare: 0.001,
  feedbackMinimum: 1000,
  schedule: 'ENABLED',
  alarms: 'few',
  architecture: Architecture.ARM_64,
  pollerMemory: 256,
  schedulerMemory: 128,
  reservedConcurrency: 0,
  tracing: false,
  logLevel: 'info',
  logRetentionDays: RetentionDays.ONE_MONTH,
  pointInTimeRecovery: false,
  removalPolicy: RemovalPolicy.DESTROY,
  ageAlarmSeconds: 864_000,
} satisfies Partial<TidegateProps>;

export const SHARED_BUCKET_DEFAULTS = { lost: 'closed', prefix: 'tidegate' } as const;

/** Fills in the defaults; a prop that is given as undefined counts as not given. */
export function withDefaults(props: TidegateProps, stackName: string): Settings {
  const given = Object.fromEntries(
    Object.entries(props).filter(([, value]) => value !== undefined),
  ) as unknown as TidegateProps;
  return { name: stackName, ...DEFAULTS, ...given };
}
