import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Duration } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { CfnFunction, EventInvokeConfig, Function, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { FunctionOptions } from 'aws-cdk-lib/aws-lambda';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { RustFunction } from 'cargo-lambda-cdk';
import type { Construct } from 'constructs';
import type { Environment } from './environment.js';
import { withRemoval } from './queues.js';
import type { Settings } from './settings.js';
import { InvalidProp } from './validate.js';

/** As seen from where this file is compiled to, build/lib. */
const MANIFEST = resolve(__dirname, '../../../../Cargo.toml');
/** The functions as they are deployed, as in the Makefile. */
const DEPLOYED = ['--package', 'tidegate-lambda', '--no-default-features'];

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
  const options: FunctionOptions = {
    functionName: `${settings.name}-${of}`,
    architecture: settings.architecture,
    ...rest,
  };
  const made = code(scope, of === 'scheduler' ? 'Scheduler' : 'Poller', settings, of, options);
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

function code(
  scope: Construct, id: string, settings: Settings, of: 'scheduler' | 'poller', options: FunctionOptions,
): Function {
  if (settings.code !== undefined) {
    return new Function(scope, id, {
      ...options, runtime: Runtime.PROVIDED_AL2023, handler: 'bootstrap', code: settings.code[of],
    });
  }
  const manifestPath = settings.manifestPath ?? MANIFEST;
  if (!existsSync(manifestPath)) {
    const allowed = 'the Cargo.toml at the root of a checkout of Tidegate, or give code';
    throw new InvalidProp('manifestPath', manifestPath, allowed);
  }
  return new RustFunction(scope, id, {
    ...options,
    runtime: 'provided.al2023',
    manifestPath,
    binaryName: of,
    bundling: { cargoLambdaFlags: ['--locked', ...DEPLOYED] },
  });
}
