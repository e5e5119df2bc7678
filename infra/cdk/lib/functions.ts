import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Duration } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { Code, CfnFunction, EventInvokeConfig, Function, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Environment } from './environment.js';
import { withRemoval } from './queues.js';
import type { Settings } from './settings.js';
import { InvalidProp } from './validate.js';

/** The functions' zips beside lib, where this is the package; a checkout has none. */
const ZIPS = resolve(__dirname, '../functions');

/** What is one function's own. */
export interface OwnFunctionProps {
  readonly of: 'scheduler' | 'poller';
  readonly description: string;
  readonly memorySize: number;
  readonly timeout: Duration;
  readonly reservedConcurrentExecutions?: number;
  readonly vpc?: IVpc;
  readonly vpcSubnets?: SubnetSelection;
  readonly securityGroups?: ISecurityGroup[];
  readonly role: Role;
  readonly logGroup: LogGroup;
  readonly environment: Environment;
  readonly failedInvocations: Queue;
}

/** The log group of a function, which is named as Lambda would name it. */
export function logGroup(scope: Construct, of: 'scheduler' | 'poller', settings: Settings): LogGroup {
  const log = new LogGroup(scope, of === 'scheduler' ? 'SchedulerLog' : 'PollerLog', {
    logGroupName: `/aws/lambda/${settings.name}-${of}`,
    retention: settings.logRetentionDays,
  });
  return withRemoval(log, settings.removalPolicy);
}

/** A function, and what becomes of an asynchronous invoke that it does not take. */
export function tidegateFunction(scope: Construct, settings: Settings, own: OwnFunctionProps): Function {
  const { of, failedInvocations, ...rest } = own;
  const made = new Function(scope, of === 'scheduler' ? 'Scheduler' : 'Poller', {
    functionName: `${settings.name}-${of}`,
    architecture: settings.architecture,
    runtime: Runtime.PROVIDED_AL2023,
    handler: 'bootstrap',
    code: code(settings, of),
    ...rest,
  });
  // Not by the library's prop, which would add a second policy to the role.
  (made.node.defaultChild as CfnFunction).tracingConfig = {
    mode: settings.tracing ? 'Active' : 'PassThrough',
  };
  new EventInvokeConfig(made, 'Invokes', {
    function: made,
    // A run that comes late is of no use: the next minute's or second's is under way.
    retryAttempts: 0,
    maxEventAge: Duration.minutes(1),
    // The library's own destination would let the function read the queue's attributes as well.
    onFailure: { bind: () => ({ destination: failedInvocations.queueArn }) },
  });
  return made;
}

/** The package's own zips, unless the props say otherwise. */
function code(settings: Settings, of: 'scheduler' | 'poller'): Code {
  if (settings.code !== undefined) return settings.code[of];
  const architecture = settings.architecture.name === 'arm64' ? 'arm64' : 'x86_64';
  const zip = join(ZIPS, `${of}-${architecture}${settings.channel === 'sms' ? '-sms' : ''}.zip`);
  if (!existsSync(zip)) {
    const allowed = `{ scheduler, poller }, since this package lacks ${basename(zip)}: it is a checkout, or was packaged without it`;
    throw new InvalidProp('code', undefined, allowed);
  }
  return Code.fromAsset(zip);
}
